/* fibers KIB [BATCHES]: what a malloc+free pair and a switch to the next fiber cost, with stacks of KIB each.
 *
 * 16 fibers in a ring, downwards, on stacks one next to the other, with a guard page between; each makes a pair three calls deep and
 * switches. Batches of 48 pairs are timed. */
#include "bench.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { FIBERS = 16, PAIRS_PER_BATCH = 48 };

static ucontext_t contexts[FIBERS], outside;
static void *volatile live[FIBERS];
static long rounds;

static NOINLINE void one_pair(int fiber) {
    free(live[fiber]);
    live[fiber] = malloc(16 + fiber * 16);
    KEEP_FRAME();
}

static NOINLINE void work(int fiber) {
    one_pair(fiber);
    KEEP_FRAME();
}

static void run(int fiber) {
    for (;;) {
        work(fiber);
        if (fiber == 0 && rounds-- == 0) swapcontext(&contexts[0], &outside);
        else swapcontext(&contexts[fiber], &contexts[(fiber + FIBERS - 1) % FIBERS]);
    }
}

static NOINLINE int make_fiber(int fiber, char *stack, size_t size) {
    enum { GUARD = 4096 };
    ucontext_t *context = &contexts[fiber];
    if (mprotect(stack, GUARD, PROT_NONE) || getcontext(context)) return 0;
    context->uc_stack.ss_sp = stack + GUARD;
    context->uc_stack.ss_size = size - GUARD;
    makecontext(context, (void (*)(void))run, 1, fiber);
    return 1;
}

int bench_main(int argc, char **argv) {
    size_t size = (argc > 1 ? atol(argv[1]) : 256) << 10;
    long count = argc > 2 ? atol(argv[2]) : 20000;
    if (count < 10 || size < 16384) return 2;
    char *stacks = mmap(NULL, FIBERS * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return 1;
    for (int fiber = 0; fiber < FIBERS; fiber++)
        if (!make_fiber(fiber, stacks + fiber * size, size)) return 1;
    struct batches all;
    if (!begin_batches(&all, count)) return 1;
    double cpu = process_cpu();
    for (long index = -(count / 10); index < count; index++) {
        uint64_t start = ticks();
        rounds = PAIRS_PER_BATCH / FIBERS;
        swapcontext(&outside, &contexts[0]);
        if (index >= 0) all.took[index] = ticks() - start;
    }
    cpu = process_cpu() - cpu;
    struct percentiles pair = end_batches(&all, PAIRS_PER_BATCH);
    long pairs = (count + count / 10) * PAIRS_PER_BATCH;
    printf("BENCH {\"p10_ns\": %.3f, \"median_ns\": %.3f, \"pairs\": %ld, \"events\": %ld, \"cpu_s\": %.6f}\n",
           pair.p10_ns, pair.median_ns, pairs, 2 * pairs, cpu);
    fflush(stdout);
    return 0;
}
