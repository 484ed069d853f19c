/* The body of ways.c and ways_fp.c. */
#include "bench.h"

enum { LIVE = 256, PAIRS_PER_BATCH = 50, WAYS = 256, RANDOM_DEPTH = 20, OUTER_DEPTH = 29 };

static void *volatile live[LIVE];
static unsigned turn;
static uint64_t state = 88172645463325252;

static NOINLINE void one_pair(void) {
    unsigned slot = turn++ % LIVE;
    free(live[slot]);
    char *block = malloc(16 + (turn * 37 & 240));
    if (block) *(volatile char *)block = 1;
    live[slot] = block;
}

typedef void step(const unsigned char *way, int left);
static step *const steps[16];

#define STEP(name, words)                                    \
    static NOINLINE void name(const unsigned char *way, int left) { \
        volatile long local[words];                          \
        local[0] = left;                                     \
        if (local[0] <= 1) one_pair();                       \
        else steps[*way](way + 1, left - 1);                 \
        local[words - 1] = left;                             \
        KEEP_FRAME();                                        \
    }
STEP(step_0, 1) STEP(step_1, 2) STEP(step_2, 3) STEP(step_3, 4) STEP(step_4, 5) STEP(step_5, 6) STEP(step_6, 7)
STEP(step_7, 8) STEP(step_8, 1) STEP(step_9, 2) STEP(step_10, 3) STEP(step_11, 4) STEP(step_12, 5) STEP(step_13, 6)
STEP(step_14, 7) STEP(step_15, 8)
static step *const steps[16] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7,
                                step_8, step_9, step_10, step_11, step_12, step_13, step_14, step_15};

static unsigned char ways[WAYS][32];

static NOINLINE void random_way(void) {
    const unsigned char *way = ways[next_random(&state) % WAYS];
    steps[*way](way + 1, RANDOM_DEPTH);
    KEEP_FRAME();
}

static NOINLINE void outer_way(void) {
    const unsigned char *way = ways[0];
    switch (next_random(&state) % 8) {
    case 0: step_0(way, OUTER_DEPTH); KEEP_FRAME(); break;
    case 1: step_0(way, OUTER_DEPTH); __asm__ volatile("nop" ::: "memory"); break;
    case 2: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop" ::: "memory"); break;
    case 3: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop;nop" ::: "memory"); break;
    case 4: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop;nop;nop" ::: "memory"); break;
    case 5: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop;nop;nop;nop" ::: "memory"); break;
    case 6: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop;nop;nop;nop;nop" ::: "memory"); break;
    default: step_0(way, OUTER_DEPTH); __asm__ volatile("nop;nop;nop;nop;nop;nop;nop" ::: "memory"); break;
    }
}

int bench_main(int argc, char **argv) {
    int outer = argc > 1 && !strcmp(argv[1], "outer");
    long count = argc > 2 ? atol(argv[2]) : 20000;
    if (count < 10) return 2;
    for (int way = 0; way < WAYS; way++)
        for (size_t place = 0; place < sizeof *ways; place++) ways[way][place] = next_random(&state) % 16;
    struct batches all;
    if (!begin_batches(&all, count)) return 1;
    double cpu = process_cpu();
    for (long index = -(count / 10); index < count; index++) {
        uint64_t start = ticks();
        for (int pair = 0; pair < PAIRS_PER_BATCH; pair++) {
            if (outer) outer_way();
            else random_way();
        }
        if (index >= 0) all.took[index] = ticks() - start;
    }
    cpu = process_cpu() - cpu;
    for (unsigned slot = 0; slot < LIVE; slot++) free(live[slot]), live[slot] = NULL;
    struct percentiles pair = end_batches(&all, PAIRS_PER_BATCH);
    long pairs = (count + count / 10) * PAIRS_PER_BATCH;
    printf("BENCH {\"p10_ns\": %.3f, \"median_ns\": %.3f, \"pairs\": %ld, \"events\": %ld, \"cpu_s\": %.6f}\n",
           pair.p10_ns, pair.median_ns, pairs, 2 * pairs, cpu);
    fflush(stdout);
    return 0;
}
