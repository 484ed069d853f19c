/* pair DEPTH [BATCHES [THREADS]]: what one malloc+free pair costs the thread that makes it.
 *
 * 256 blocks stay alive; a pair frees the oldest and allocates its successor, at the end of DEPTH calls entered and left
 * for every pair. Batches of 50 pairs are timed. Each thread makes BATCHES batches with blocks of its own; the
 * percentiles are those of all batches. */
#include "bench.h"
#include <pthread.h>

enum { LIVE = 256, PAIRS_PER_BATCH = 50, MOST_THREADS = 64 };

static __thread void *volatile live[LIVE];
static __thread unsigned turn;

static NOINLINE void one_pair(void) {
    unsigned slot = turn++ % LIVE;
    free(live[slot]);
    char *block = malloc(16 + (turn * 37 & 240));
    if (block) *(volatile char *)block = 1;
    live[slot] = block;
}

#define AT_THE_DEEPEST_LEVEL one_pair
#include "levels.h"

static NOINLINE void batch(int depth) {
    for (int pair = 0; pair < PAIRS_PER_BATCH; pair++) {
        if (depth == 0) one_pair();
        else level_0(depth);
    }
}

struct job {
    pthread_t thread;
    int depth;
    long batches;
    uint64_t *took;
};

static void *work(void *argument) {
    struct job *job = argument;
    for (long warm = 0; warm < job->batches / 10; warm++) batch(job->depth);
    for (long index = 0; index < job->batches; index++) {
        uint64_t start = ticks();
        batch(job->depth);
        job->took[index] = ticks() - start;
    }
    for (unsigned slot = 0; slot < LIVE; slot++) free(live[slot]), live[slot] = NULL;
    return NULL;
}

int bench_main(int argc, char **argv) {
    int depth = argc > 1 ? atoi(argv[1]) : 0;
    long batches = argc > 2 ? atol(argv[2]) : 20000;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (batches < 10 || threads < 1 || threads > MOST_THREADS) return 2;
    struct batches all;
    if (!begin_batches(&all, batches * threads)) return 1;

    static struct job jobs[MOST_THREADS];
    double cpu = process_cpu();
    for (int index = 0; index < threads; index++) {
        jobs[index] = (struct job){.depth = depth, .batches = batches, .took = all.took + index * batches};
        /* The first job is done by the calling thread: with one thread there is no other. */
        if (index > 0 && pthread_create(&jobs[index].thread, NULL, work, &jobs[index])) return 1;
    }
    work(&jobs[0]);
    for (int index = 1; index < threads; index++) pthread_join(jobs[index].thread, NULL);
    cpu = process_cpu() - cpu;
    struct percentiles pair = end_batches(&all, PAIRS_PER_BATCH);
    long pairs = (batches + batches / 10) * threads * PAIRS_PER_BATCH;
    printf("BENCH {\"p10_ns\": %.3f, \"median_ns\": %.3f, \"pairs\": %ld, \"events\": %ld, \"cpu_s\": %.6f}\n",
           pair.p10_ns, pair.median_ns, pairs, 2 * pairs, cpu);
    fflush(stdout);
    return 0;
}
