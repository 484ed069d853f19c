/* whole_c EVENTS flat|deep THREADS: a program that does little but allocate and free.
 *
 * Each thread keeps 32768 blocks of 16 to 2048 bytes, more than the nearer caches hold, uses their memory, and replaces
 * them in random order. "deep": each allocation is made at the end of one of 1024 call paths of 20 to 27 frames, entered
 * and left for it; paths share their outer frames in groups, as those of real programs do, and a function does a little
 * work of its own. Blocks are freed by the thread's outer loop. EVENTS is the total of all threads. */
#include "bench.h"
#include <pthread.h>

enum { LIVE = 32768, PATHS = 1024, OUTER_FRAMES = 8, LEAST_FRAMES = 20, WORDS = 8 };

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
    long rounds;
    uint64_t seed;
    uint64_t checksum;
};

static NOINLINE char *allocate(uint64_t random, size_t size) {
    if (!deep) return malloc(size);
    const struct path *path = &paths[random % PATHS];
    return steps[path->turns & 3](path->turns >> 2, path->frames, size);
}

static void *work(void *argument) {
    struct job *job = argument;
    uint64_t random = job->seed;
    struct { char *block; size_t size; } *live = calloc(LIVE, sizeof *live);
    if (!live) return NULL;
    for (long round = 0; round < job->rounds; round++) {
        uint64_t choice = next_random(&random);
        size_t slot = choice >> 32 & (LIVE - 1);
        if (live[slot].block) {
            job->checksum += (unsigned char)live[slot].block[live[slot].size / 2];
            free(live[slot].block);
        }
        size_t size = block_size(choice);
        char *block = allocate(choice >> 20, size);
        if (!block) return NULL;
        memset(block, (int)choice, size);
        live[slot].block = block;
        live[slot].size = size;
    }
    for (size_t slot = 0; slot < LIVE; slot++) free(live[slot].block);
    free(live);
    return argument;
}

int bench_main(int argc, char **argv) {
    long events = argc > 1 ? atol(argv[1]) : 1000000;
    deep = argc > 2 && strcmp(argv[2], "deep") == 0;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (threads < 1 || threads > 64 || events < 2) return 2;
    make_paths();
    static struct job jobs[64];
    double wall = seconds(CLOCK_MONOTONIC), cpu = process_cpu();
    for (int index = 0; index < threads; index++) {
        jobs[index].rounds = events / 2 / threads;
        jobs[index].seed = 0x2545f4914f6cdd1d * (uint64_t)(index + 1);
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
    printf("BENCH {\"events\": %ld, \"cpu_s\": %.6f, \"wall_s\": %.6f, \"hwm_kb\": %ld, \"checksum\": %llu}\n",
           events / 2 / threads * threads * 2, cpu, wall, status_kb("VmHWM:"), (unsigned long long)checksum);
    fflush(stdout);
    return 0;
}
