// Threads that end while a hook is at work: each maps and unmaps until a signal or a cancellation ends it, wherever it is.
//
// ends_at_work raw-exit|pthread-exit|cancel THREADS [NANOSECONDS]: one thread after the other, each ended within that time. Prints how
// many pairs of calls came back.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 12 << 12, STACK = 256 << 10, LONGEST_NS = 30000 };

static atomic_long pairs;
static atomic_int number;
static int is_cancelled;

static void die(const char *what) {
    perror(what);
    exit(2);
}

/// Without the C library: what it has of the thread stays.
static void end_raw(int unused) {
    (void)unused;
    syscall(SYS_exit, 0);
}

static void end_by_pthread(int unused) {
    (void)unused;
    pthread_exit(NULL);
}

static void *work(void *unused) {
    int before;
    if (is_cancelled) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    number = syscall(SYS_gettid);
    for (;;) {
        void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) die("mmap");
        munmap(memory, SIZE);
        pairs++;
    }
    return unused;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 2000, longest_ns = argc > 3 ? atoi(argv[3]) : LONGEST_NS, is_raw = !strcmp(how, "raw-exit");
    is_cancelled = !strcmp(how, "cancel");
    if (!is_raw && !is_cancelled && strcmp(how, "pthread-exit")) {
        fprintf(stderr, "usage: ends_at_work raw-exit|pthread-exit|cancel THREADS [NANOSECONDS]\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = is_raw ? end_raw : end_by_pthread};
    if (sigaction(SIGUSR1, &action, NULL)) die("sigaction");
    unsigned random = now_ns();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        number = 0;
        errno = pthread_create(&thread, &attributes, work, NULL);
        if (errno) die("thread");
        while (!number) sched_yield();
        random = random * 1103515245 + 12345;
        for (long until = now_ns() + (random >> 8) % longest_ns; now_ns() < until;) {}
        if (is_cancelled) pthread_cancel(thread);
        else syscall(SYS_tgkill, getpid(), number, SIGUSR1);
        if (!is_raw) pthread_join(thread, NULL);
        else while (!syscall(SYS_tgkill, getpid(), number, 0)) sched_yield();
    }
    printf("%ld pairs\n", atomic_load(&pairs));
    return 0;
}
