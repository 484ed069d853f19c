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

int bench_main(int argc, char **argv);

#ifndef BENCH_LIBRARY
int main(int argc, char **argv) { return bench_main(argc, argv); }
#endif
#endif
