/* Code in a segment of its own, far from the others. */
#include <stdlib.h>

__attribute__((noinline, section(".far"))) void *far_away(size_t size) {
    void *block = malloc(size);
    return block ? block : abort(), block;
}

__attribute__((noinline)) void *nearby(size_t size) {
    void *block = far_away(size);
    return block ? block : abort(), block;
}

int main(void) {
    for (int i = 0; i < 5; i++)
        nearby(6101);
    for (int i = 0; i < 5; i++)
        malloc(6102);
}
