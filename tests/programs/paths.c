/* An allocation at the end of every path through a tree of calls: more stacks than the recorder remembers. */
#include <stdlib.h>

__attribute__((noinline)) void walk(int depth) {
    if (depth == 0) {
        free(malloc(31337));
        return;
    }
    walk(depth - 1);
    walk(depth - 1);
}

int main(void) {
    walk(18);
    return 0;
}
