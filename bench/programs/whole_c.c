/* whole_c EVENTS flat|deep THREADS: a program that does little but allocate and free.
 *
 * 32768 blocks of 16 to 2048 bytes are alive, more than the nearer caches hold; their memory is used, and they are
 * replaced in random order. "deep": each allocation is made at the end of one of 1024 call paths of 20 to 27 frames,
 * entered and left for it; paths share their outer frames in groups, as those of real programs do, and a function does a
 * little work of its own. Blocks are freed by the thread's outer loop.
 *
 * Batches of 64 rounds are timed besides, from the tenth part of the rounds on, when most blocks are there; times are
 * those of one event.
 *
 * Blocks and EVENTS are those of all threads together: 4 threads do the same work as 1. With as many blocks each they
 * would need four times the memory, and what they cost more would be that of the outer caches. */
#include "bench.h"
#include <pthread.h>

enum { LIVE = 32768, PATHS = 1024, OUTER_FRAMES = 8, LEAST_FRAMES = 20, WORDS = 8, ROUNDS_PER_BATCH = 64, EVENTS_PER_ROUND = 2,
       MOST_THREADS = 64 };

struct path {
    uint64_t turns; /* Two bits a frame: which function comes next. */
    int frames;
};

static struct path paths[PATHS];
static int deep;

typedef char *step(uint64_t turns, int frames, size_t size);
static step step_0, step_1, step_2, step_3;
static step *const steps[4] = {step_0, step_1, step_2, step_3};

#define STEP(name, multiplier)                                                        \
    static NOINLINE char *name(uint64_t turns, int frames, size_t size) {             \
        volatile uint64_t local[WORDS];                                               \
        uint64_t mixed = size;                                                        \
        for (int word = 0; word < WORDS; word++) local[word] = mixed += turns * multiplier; \
        char *block = frames <= 1 ? malloc(size)                                      \
                                  : steps[turns & 3](turns >> 2, frames - 1, size);   \
        for (int word = 0; word < WORDS; word++) mixed ^= local[word];                \
        local[mixed & (WORDS - 1)] = mixed;                                           \
        KEEP_FRAME();                                                                 \
        return block;                                                                 \
    }
STEP(step_0, 3)
STEP(step_1, 5)
STEP(step_2, 7)
STEP(step_3, 11)

static void make_paths(void) {
    uint64_t random = 0x9e3779b97f4a7c15;
    uint64_t outer = 0;
    for (int index = 0; index < PATHS; index++) {
        if (index % 64 == 0) outer = next_random(&random) & ((1u << 2 * OUTER_FRAMES) - 1);
        paths[index].turns = next_random(&random) << 2 * OUTER_FRAMES | outer;
        paths[index].frames = LEAST_FRAMES + (int)(next_random(&random) % 8);
    }
}

struct job {
    pthread_t thread;
    long warm_batches, batches;
    uint64_t *took;
    size_t live;
    uint64_t seed;
    uint64_t checksum;
};

static NOINLINE char *allocate(uint64_t random, size_t size) {
    if (!deep) return malloc(size);
    const struct path *path = &paths[random % PATHS];
    return steps[path->turns & 3](path->turns >> 2, path->frames, size);
}

struct block {
    char *memory;
    size_t size;
};

/* Frees one of the live blocks and allocates its successor; 0 if there is no memory. */
static inline int one_round(struct job *job, struct block *live, uint64_t *random) {
    uint64_t choice = next_random(random);
    struct block *block = &live[(choice >> 32) * job->live >> 32];
    if (block->memory) {
        job->checksum += (unsigned char)block->memory[block->size / 2];
        free(block->memory);
    }
    block->size = block_size(choice);
    block->memory = allocate(choice >> 20, block->size);
    if (!block->memory) return 0;
    memset(block->memory, (int)choice, block->size);
    return 1;
}

static void *work(void *argument) {
    struct job *job = argument;
    uint64_t random = job->seed;
    struct block *live = calloc(job->live, sizeof *live);
    if (!live) return NULL;
    for (long batch = -job->warm_batches; batch < job->batches; batch++) {
        uint64_t start = ticks();
        for (int round = 0; round < ROUNDS_PER_BATCH; round++)
            if (!one_round(job, live, &random)) return NULL;
        if (batch >= 0) job->took[batch] = ticks() - start;
    }
    for (size_t slot = 0; slot < job->live; slot++) free(live[slot].memory);
    free(live);
    return argument;
}

int bench_main(int argc, char **argv) {
    long events = argc > 1 ? atol(argv[1]) : 1000000;
    deep = argc > 2 && strcmp(argv[2], "deep") == 0;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (threads < 1 || threads > MOST_THREADS) return 2;
    long batches = events / EVENTS_PER_ROUND / ROUNDS_PER_BATCH / threads, warm_batches = batches / 10;
    if (batches < 10) return 2;
    make_paths();
    struct batches all;
    if (!begin_batches(&all, (batches - warm_batches) * threads)) return 1;

    static struct job jobs[MOST_THREADS];
    double wall = seconds(CLOCK_MONOTONIC), cpu = process_cpu();
    for (int index = 0; index < threads; index++) {
        long timed = batches - warm_batches;
        jobs[index] = (struct job){.warm_batches = warm_batches, .batches = timed, .took = all.took + index * timed,
                                   .live = LIVE / threads, .seed = 0x2545f4914f6cdd1d * (uint64_t)(index + 1)};
        if (pthread_create(&jobs[index].thread, NULL, work, &jobs[index])) return 1;
    }
    uint64_t checksum = 0;
    for (int index = 0; index < threads; index++) {
        void *done;
        if (pthread_join(jobs[index].thread, &done) || !done) return 1;
        checksum += jobs[index].checksum;
    }
    cpu = process_cpu() - cpu;
    wall = seconds(CLOCK_MONOTONIC) - wall;
    struct percentiles event = end_batches(&all, ROUNDS_PER_BATCH * EVENTS_PER_ROUND);
    printf("BENCH {\"events\": %ld, \"cpu_s\": %.6f, \"wall_s\": %.6f, \"p10_ns\": %.3f, \"median_ns\": %.3f, "
           "\"hwm_kb\": %ld, \"checksum\": %llu}\n",
           batches * threads * ROUNDS_PER_BATCH * EVENTS_PER_ROUND, cpu, wall, event.p10_ns, event.median_ns,
           status_kb("VmHWM:"), (unsigned long long)checksum);
    fflush(stdout);
    return 0;
}
