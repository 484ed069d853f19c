#include <stdio.h>
extern char __executable_start;

/* Prints where it was called from, as an address in the file: a position-independent program starts at 0 there. */
__attribute__((noinline)) void report(void) {
    printf("%lx\n", (unsigned long)((char *)__builtin_return_address(0) - &__executable_start));
}

static inline __attribute__((always_inline)) void innermost(int depth) {
    report(); /* line 10 */
    __asm__ volatile("" : : "r"(depth));
}

static inline __attribute__((always_inline)) void middle(int depth) {
    innermost(depth + 1); /* line 15 */
}

__attribute__((noinline)) void physical(int depth) {
    middle(depth + 1); /* line 19 */
}

static __attribute__((noinline)) void private_function(int depth) {
    report(); /* line 23 */
    __asm__ volatile("" : : "r"(depth));
}

int main(int argc, char **argv) {
    (void)argv;
    physical(argc);
    private_function(argc);
    return 0;
}
