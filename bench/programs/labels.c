/* labels [BATCHES]: what it costs a program to label what it allocates: one label opened and closed. Without a recorder it does
 * nothing, and that takes no time. Batches of 50 are timed. */
#include "bench.h"
#include "../../crates/memscope-preload/include/msmemscope.h"
#include <dlfcn.h>

enum { PAIRS_PER_BATCH = 50 };

static const struct msmemscope_api *recorder;

static NOINLINE void batch(void) {
    static const char label[] = "attention";
    for (int pair = 0; recorder && pair < PAIRS_PER_BATCH; pair++) {
        recorder->label_start(5, label, sizeof label - 1);
        recorder->label_end(5, label, sizeof label - 1);
    }
}

int bench_main(int argc, char **argv) {
    long batches = argc > 1 ? atol(argv[1]) : 20000;
    if (batches < 10) return 2;
    struct batches all;
    if (!begin_batches(&all, batches)) return 1;
    const struct msmemscope_api *(*get)(void) = (const struct msmemscope_api *(*)(void))dlsym(RTLD_DEFAULT, "msmemscope_api");
    recorder = get ? get() : NULL;
    if (recorder && recorder->size < sizeof *recorder) return 1;
    double cpu = process_cpu();
    for (long warm = 0; warm < batches / 10; warm++) batch();
    for (long index = 0; index < batches; index++) {
        uint64_t start = ticks();
        batch();
        all.took[index] = ticks() - start;
    }
    cpu = process_cpu() - cpu;
    struct percentiles pair = end_batches(&all, PAIRS_PER_BATCH);
    long pairs = (batches + batches / 10) * PAIRS_PER_BATCH;
    printf("BENCH {\"p10_ns\": %.3f, \"median_ns\": %.3f, \"pairs\": %ld, \"events\": %ld, \"cpu_s\": %.6f}\n",
           pair.p10_ns, pair.median_ns, pairs, 2 * pairs, cpu);
    fflush(stdout);
    return 0;
}
