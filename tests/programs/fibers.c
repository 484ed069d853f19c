/* fibers KIB...: for each size, fibers on stacks of so many KiB take turns; each allocates from a function of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 3, ROUNDS = 10, GUARD = 4096 };

static ucontext_t contexts[FIBERS], outside;

static __attribute__((noinline)) void allocate(size_t size) {
    if (!malloc(size))
        abort();
}

#define WORK(name, size) \
    static __attribute__((noinline)) void name(void) { \
        allocate(size); \
        __asm__ volatile("" ::: "memory"); \
    }
WORK(work_of_first, 6201)
WORK(work_of_second, 6202)
WORK(work_of_third, 6203)

static void run(int fiber) {
    static void (*const work[FIBERS])(void) = {work_of_first, work_of_second, work_of_third};
    for (int round = 0; round < ROUNDS; round++) {
        work[fiber]();
        /* Down twice, then up again. */
        swapcontext(&contexts[fiber], &contexts[(fiber + FIBERS - 1) % FIBERS]);
    }
    setcontext(&outside);
}

static __attribute__((noinline)) void make_fiber(int fiber, char *stack, size_t size) {
    ucontext_t *context = &contexts[fiber];
    if (mprotect(stack, GUARD, PROT_NONE) || getcontext(context))
        abort();
    context->uc_stack.ss_sp = stack + GUARD;
    context->uc_stack.ss_size = size - GUARD;
    makecontext(context, (void (*)(void))run, 1, fiber);
}

static __attribute__((noinline)) void take_turns(size_t size) {
    char *stacks = mmap(NULL, FIBERS * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        abort();
    for (int fiber = 0; fiber < FIBERS; fiber++)
        make_fiber(fiber, stacks + fiber * size, size);
    swapcontext(&outside, &contexts[0]);
    /* The next stacks take the place of these. */
    munmap(stacks, FIBERS * size);
}

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++)
        take_turns(strtoul(arguments[i], NULL, 10) << 10);
    return 0;
}
