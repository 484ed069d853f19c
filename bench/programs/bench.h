/* What the benchmark programs share: a cycle counter, CPU time, memory figures, one line of results.
 *
 * Each program is a function bench_main, built twice: as a program, and as a library that drive.py calls from Python,
 * because some profilers attach to Python only. */
#ifndef BENCH_H
#define BENCH_H
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
/* Keeps a call from becoming a jump: the frame must exist. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) :: "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) :: "memory");
    return value;
#else
#error "no cycle counter known for this processor"
#endif
}

static inline double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* User and system time of all threads of this process. */
static inline double process_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* A field of /proc/self/status in KiB, read without allocating. */
static inline long status_kb(const char *field) {
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY);
    if (file < 0) return -1;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return -1;
    text[size] = 0;
    const char *found = strstr(text, field);
    return found ? atol(found + strlen(field) + 1) : -1;
}

/* xorshift: cheap, repeatable, one state per thread. */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* The same workload for everybody: mostly small, some up to 2 KiB. */
static inline size_t block_size(uint64_t random) {
    return (random & 15) ? 16 + (random >> 8) % 240 : 256 + (random >> 8) % 1792;
}

/* Batches of calls, timed by the threads that make them with the processor's counter. The tenth percentile is the cost
 * without interruptions, which is what can be compared between runs on a busy machine. */
struct batches {
    uint64_t *took;
    long count;
    uint64_t first_tick;
    double begin;
};

struct percentiles { double p10_ns, median_ns; };

static inline int begin_batches(struct batches *batches, long count) {
    uint64_t *took = malloc(count * sizeof *took);
    if (!took) return 0;
    /* Its pages must be there before anything is timed. */
    memset(took, 1, count * sizeof *took);
    *batches = (struct batches){took, count, ticks(), seconds(CLOCK_MONOTONIC)};
    return 1;
}

static inline int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The percentiles of a single call, of which a batch had so many. */
static inline struct percentiles end_batches(struct batches *batches, int calls) {
    double ns = (seconds(CLOCK_MONOTONIC) - batches->begin) * 1e9, scale = ns / (double)(ticks() - batches->first_tick) / calls;
    qsort(batches->took, batches->count, sizeof *batches->took, by_value);
    struct percentiles found = {batches->took[batches->count / 10] * scale, batches->took[batches->count / 2] * scale};
    free(batches->took);
    return found;
}

int bench_main(int argc, char **argv);

#ifndef BENCH_LIBRARY
int main(int argc, char **argv) { return bench_main(argc, argv); }
#endif
#endif
