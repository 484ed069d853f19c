/* device hal|pool DEPTH BATCHES THREADS LIVE STEPS ROUTES: what an event of device memory costs the thread that makes it.
 *
 * hal: halMemFree and halMemAlloc. pool: what torch_npu tells through mstx of a block it takes back and of one it hands
 * out. LIVE blocks stay alive, at least 256; a pair frees the oldest of the first 256 (a simulated driver looks for a gap
 * from there) and allocates its successor, below DEPTH functions that are entered and left for every pair, the outermost of
 * which is called from ROUTES places in turn: with more than one no stack is that of the pair before. STEPS ranges "step start" are
 * spread over the run. Batches of 50 pairs are timed; times are those of one event, half a pair. Each thread has a device of its own for driver events: the
 * lock of a device is the simulation's.
 *
 * CANN's libraries are taken from the loader's path, into everybody's sight, so that a preloaded tool stands in front of
 * them as it does for programs that are linked with them. */
#include "bench.h"
#include <dlfcn.h>
#include <pthread.h>

enum { CHANGING = 256, PAIRS_PER_BATCH = 50, EVENTS_PER_PAIR = 2, MOST_THREADS = 64, MOST_ROUTES = 8, POOL_BLOCK = 512 };

/* Memory of a device for the application, in pages of the usual size. */
static const uint64_t DEVICE_FLAG = 33ull << 56 | 1 << 10;
enum { DEVICES = 8 };
static const char *const POOL_MEMORY = (const char *)0x124000000000;
static const uint64_t POOL_RESERVED = 1ull << 30;

struct range { uint32_t device; const void *address; uint64_t size; };
struct heap { uint32_t usage, type; const struct range *range; };
struct regions { void *heap; uint32_t type; size_t count; const struct range *ranges; void **handles; };
struct reference { uint32_t kind; const void *address; };
struct references { size_t count; const struct reference *list; };

static int (*hal_allocate)(void **, uint64_t, uint64_t);
static int (*hal_free)(void *);
static void *(*domain_create)(const char *);
static void *(*heap_register)(void *, const struct heap *);
static void (*regions_register)(void *, const struct regions *);
static void (*regions_unregister)(void *, const struct references *);
static uint64_t (*range_start)(const char *, void *);
static void (*range_end)(uint64_t);

static int is_pool;
static unsigned live_blocks = CHANGING, routes = 1;
static __thread void **live;
static __thread unsigned turn, thread_number;

static void pool_says_what_it_reserved(void *domain, const void *block) {
    struct range reserved = {0, block, POOL_RESERVED};
    struct heap heap = {0, 0, &reserved};
    heap_register(domain, &heap);
}

static void pool_allocate(unsigned slot, uint64_t size) {
    const char *block = POOL_MEMORY + ((uint64_t)thread_number << 36) + (uint64_t)slot * POOL_BLOCK;
    void *domain = domain_create("ptaCaching");
    pool_says_what_it_reserved(domain, block);
    struct range range = {0, block, size};
    struct regions regions = {0, 0, 1, &range, 0};
    regions_register(domain, &regions);
    live[slot] = (void *)block;
}

static void pool_free(unsigned slot) {
    void *domain = domain_create("ptaCaching");
    pool_says_what_it_reserved(domain, live[slot]);
    struct reference one = {0, live[slot]};
    struct references batch = {1, &one};
    regions_unregister(domain, &batch);
}

static void allocate(unsigned slot) {
    if (is_pool) pool_allocate(slot, POOL_BLOCK * (1 + slot % 7));
    else if (hal_allocate(&live[slot], 4096 * (1 + slot % 7), DEVICE_FLAG | thread_number % DEVICES)) abort();
}

static void release(unsigned slot) {
    if (is_pool) pool_free(slot);
    else if (hal_free(live[slot])) abort();
}

static NOINLINE void one_pair(void) {
    unsigned slot = turn++ % CHANGING;
    release(slot);
    allocate(slot);
}

#define AT_THE_DEEPEST_LEVEL one_pair
#include "levels.h"

/* Eight places to come from. */
#define ROUTE(number) case number: level_0(depth); KEEP_FRAME(); __asm__ volatile("# route " #number); break
static NOINLINE void one_pair_below(int depth) {
    if (depth == 0) {
        one_pair();
        return;
    }
    switch (turn % routes) {
        ROUTE(0); ROUTE(1); ROUTE(2); ROUTE(3); ROUTE(4); ROUTE(5); ROUTE(6); ROUTE(7);
    }
}

/* For Python: what a call from there does. */
void device_pair(int depth) { one_pair_below(depth); }

static void *function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) fprintf(stderr, "%s is nowhere\n", name), exit(1);
    return found;
}

static void take_libraries(void) {
    const char *names[] = {"libascend_hal.so", "libms_tools_ext.so"};
    for (int index = 0; index < 2; index++) {
        if (!dlopen(names[index], RTLD_NOW | RTLD_GLOBAL)) fprintf(stderr, "%s\n", dlerror()), exit(1);
    }
    hal_allocate = function("halMemAlloc");
    hal_free = function("halMemFree");
    domain_create = function("mstxDomainCreateA");
    heap_register = function("mstxMemHeapRegister");
    regions_register = function("mstxMemRegionsRegister");
    regions_unregister = function("mstxMemRegionsUnregister");
    range_start = function("mstxRangeStartA");
    range_end = function("mstxRangeEnd");
}

static int begin_thread(unsigned number) {
    thread_number = number;
    live = calloc(live_blocks, sizeof *live);
    for (unsigned slot = 0; live && slot < live_blocks; slot++) allocate(slot);
    return live != NULL;
}

/* For Python: the libraries, and the blocks that stay alive. */
int device_begin(int pool, unsigned blocks, unsigned places) {
    is_pool = pool, live_blocks = blocks, routes = places;
    take_libraries();
    return begin_thread(0);
}

struct job {
    pthread_t thread;
    unsigned number;
    int depth;
    long batches, steps;
    uint64_t *took;
    double cpu;
};

static void batch(int depth) {
    for (int pair = 0; pair < PAIRS_PER_BATCH; pair++) one_pair_below(depth);
}

static void *work(void *argument) {
    struct job *job = argument;
    if (!begin_thread(job->number)) abort();
    for (long warm = 0; warm < job->batches / 10; warm++) batch(job->depth);
    uint64_t step = 0;
    double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (long index = 0; index < job->batches; index++) {
        if (index * job->steps / job->batches != (index - 1) * job->steps / job->batches || (index == 0 && job->steps)) {
            if (step) range_end(step);
            step = range_start("step start", NULL);
        }
        uint64_t start = ticks();
        batch(job->depth);
        job->took[index] = ticks() - start;
    }
    job->cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    if (step) range_end(step);
    for (unsigned slot = 0; slot < live_blocks; slot++) release(slot);
    free(live);
    return NULL;
}

int bench_main(int argc, char **argv) {
    if (argc != 8) return fprintf(stderr, "device hal|pool DEPTH BATCHES THREADS LIVE STEPS ROUTES\n"), 2;
    is_pool = !strcmp(argv[1], "pool");
    int depth = atoi(argv[2]), threads = atoi(argv[4]);
    long batches = atol(argv[3]), steps = atol(argv[6]);
    live_blocks = atoi(argv[5]), routes = atoi(argv[7]);
    if (batches < 10 || threads < 1 || threads > MOST_THREADS || live_blocks < CHANGING || !routes || routes > MOST_ROUTES) return 2;
    take_libraries();
    struct batches all;
    if (!begin_batches(&all, batches * threads)) return 1;

    static struct job jobs[MOST_THREADS];
    for (int index = 0; index < threads; index++) {
        jobs[index] = (struct job){.number = index, .depth = depth, .batches = batches, .steps = steps,
                                   .took = all.took + index * batches};
        /* The first job is done by the calling thread: with one thread there is no other. */
        if (index > 0 && pthread_create(&jobs[index].thread, NULL, work, &jobs[index])) return 1;
    }
    work(&jobs[0]);
    double cpu = jobs[0].cpu;
    for (int index = 1; index < threads; index++) pthread_join(jobs[index].thread, NULL), cpu += jobs[index].cpu;

    struct percentiles event = end_batches(&all, PAIRS_PER_BATCH * EVENTS_PER_PAIR);
    printf("BENCH {\"p10_ns\": %.3f, \"median_ns\": %.3f, \"events\": %ld, \"cpu_s\": %.6f}\n", event.p10_ns,
           event.median_ns, all.count * PAIRS_PER_BATCH * EVENTS_PER_PAIR, cpu);
    fflush(stdout);
    return 0;
}
