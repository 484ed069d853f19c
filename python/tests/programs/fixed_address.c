/* Runs Python at a fixed address, and has taken the addresses of the allocator's functions: for the whole process they are
   then places in this program. */
#include <stdlib.h>

int Py_BytesMain(int, char **);

void *(*volatile allocate)(size_t) = malloc;
void (*volatile release)(void *) = free;

__attribute__((visibility("default"))) void take(int times) {
    while (times--)
        free(malloc(66666));
}

int main(int count, char **words) {
    void *block = allocate(10);
    release(block);
    return Py_BytesMain(count, words);
}
