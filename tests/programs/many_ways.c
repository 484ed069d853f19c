/* many_ways DEPTH ROUNDS: in each round a block by each of the 2^DEPTH ways through two functions that call both. The size of
 * a block is the number of its way, from 1 on. */
#include <stdlib.h>

#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static void *volatile block;

static __attribute__((noinline)) void right(int depth, size_t way);

static __attribute__((noinline)) void left(int depth, size_t way) {
    if (depth == 0) {
        block = malloc(1 + way);
        free(block);
    } else {
        left(depth - 1, 2 * way);
        right(depth - 1, 2 * way + 1);
    }
    KEEP_FRAME();
}

static __attribute__((noinline)) void right(int depth, size_t way) {
    if (depth == 0) {
        block = malloc(1 + way);
        free(block);
    } else {
        left(depth - 1, 2 * way);
        right(depth - 1, 2 * way + 1);
    }
    KEEP_FRAME();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    for (int round = atoi(argv[2]); round > 0; round--) left(atoi(argv[1]), 0);
    return 0;
}
