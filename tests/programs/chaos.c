/* A random program: chaos SEED WHAT PLUGIN. WHAT is a set of letters: s signal handlers that map memory, a on stacks of
   their own, j jumps out of whatever runs, f forks, F forks in signal handlers, v vfork, u libraries loaded and unloaded.
   Everything it does is counted, by itself and by chaos_heap.c. */
#include "chaos.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, OPERATIONS = 6000, IN_CHILD = 300, BLOCKS = 64, MAPPINGS = 8, PAGE = 4096, STACK = 64 * 1024 };

pid_t _Fork(void) __attribute__((weak));

static const char *what, *plugin;

struct worker {
    unsigned long random;
    void *blocks[BLOCKS], *mappings[MAPPINGS];
    sigjmp_buf target;
    volatile sig_atomic_t may_jump, signals, forks;
    /* Of the call under way: a realloc is a free and an allocation. */
    volatile sig_atomic_t events;
    /* A child of a fork ends after so many operations. */
    volatile long left;
    timer_t timer;
};

static __thread struct worker *self;

static int wants(char letter) {
    return strchr(what, letter) != 0;
}

static unsigned long draw(struct worker *worker, unsigned long below) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random % below;
}

static void counted(int kind) {
    atomic_fetch_add(&chaos_counts()->events[kind], 1);
}

static void *map(size_t pages) {
    void *mapped = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        abort();
    counted(MAPPED);
    return mapped;
}

static void unmap(void *mapped, size_t pages) {
    munmap(mapped, pages * PAGE);
    counted(UNMAPPED);
}

static void on_timer(int signal) {
    (void)signal;
    struct worker *worker = self;
    if (!worker || getpid() != (pid_t)syscall(SYS_getpid))
        return;
    unsigned long number = ++worker->signals;
    void *mapped = map(3);
    unmap(mapped, 3);
    if (wants('F') && worker->left < 0 && number % 40 == 7 && _Fork && worker->forks < 10) {
        worker->forks++;
        pid_t child = _Fork();
        if (child == 0) {
            chaos_begin(0);
            /* The call under way in the parent may be seen in the child from here on. */
            atomic_fetch_add(&chaos_counts()->left, worker->events);
            unmap(map(5), 5);
            if (number % 80 == 7)
                _exit(0);
            worker->left = IN_CHILD;
            worker->may_jump = 0;
            return;
        }
        int status = 0;
        if (child > 0 && (waitpid(child, &status, 0) != child || status))
            abort();
    }
    if (wants('j') && worker->may_jump && number % 2) {
        worker->may_jump = 0;
        atomic_fetch_add(&chaos_counts()->left, worker->events);
        siglongjmp(worker->target, 1);
    }
}

static void start_timer(struct worker *worker) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &worker->timer))
        abort();
    struct itimerspec often = {{0, 150000}, {0, 150000}};
    timer_settime(worker->timer, 0, &often, 0);
}

static void worked(struct worker *worker) {
    if (worker->left > 0 && --worker->left == 0)
        _exit(0);
}

static __attribute__((noinline)) void operate(struct worker *worker, int depth);

static void fork_and_work(struct worker *worker) {
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        chaos_begin(0);
        worker->left = IN_CHILD;
        worker->random ^= 0x5555;
        for (;;) {
            operate(worker, draw(worker, 20));
            worked(worker);
        }
    }
    int status;
    waitpid(child, &status, 0);
    if (status)
        abort();
}

static void vfork_and_map(void) {
    pid_t child = vfork();
    if (child == 0) {
        /* In the parent's memory: this is the parent's. */
        unmap(map(2), 2);
        _exit(0);
    }
    waitpid(child, 0, 0);
}

static void load_and_unload(void) {
    void *library = dlopen(plugin, RTLD_NOW);
    if (!library)
        abort();
    void (*function)(void) = (void (*)(void))dlsym(library, "plugin_work");
    function();
    dlclose(library);
}

static __attribute__((noinline)) void operate(struct worker *worker, int depth) {
    if (depth > 0) {
        operate(worker, depth - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    unsigned long choice = draw(worker, 1000);
    void **block = &worker->blocks[draw(worker, BLOCKS)];
    void **mapping = &worker->mappings[draw(worker, MAPPINGS)];
    if (choice < 600) {
        void *old = *block;
        *block = 0;
        free(old);
        *block = malloc(draw(worker, 500));
    } else if (choice < 750) {
        void *old = *block;
        *block = 0;
        worker->events = 2;
        *block = realloc(old, draw(worker, 900) + 1);
        worker->events = 1;
    } else if (choice < 980) {
        void *old = *mapping;
        *mapping = 0;
        if (old)
            unmap(old, 1);
        *mapping = map(1);
    } else {
        /* What must not be left by a jump, nor forked in the middle of. */
        sigset_t timer, before;
        sigemptyset(&timer);
        sigaddset(&timer, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &timer, &before);
        if (choice < 985 && wants('f') && worker->left < 0)
            fork_and_work(worker);
        else if (choice < 990 && wants('v'))
            vfork_and_map();
        else if (choice < 995 && wants('u') && worker->left < 0)
            load_and_unload();
        pthread_sigmask(SIG_SETMASK, &before, 0);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGUSR1);
    /* Above or below the thread's own stack, as it comes. */
    stack_t stack = {.ss_size = STACK};
    if (wants('a')) {
        stack.ss_sp = map(STACK / PAGE);
        sigaltstack(&stack, 0);
    }
    worker->events = 1;
    self = worker;
    if (wants('s'))
        start_timer(worker);
    volatile int done = 0;
    while (done < OPERATIONS) {
        if (!sigsetjmp(worker->target, 1))
            worker->may_jump = 1;
        worker->events = 1;
        while (done < OPERATIONS) {
            done++;
            operate(worker, draw(worker, 30));
            worked(worker);
            if (!worker->may_jump)
                break;
        }
    }
    worker->may_jump = 0;
    if (wants('s'))
        timer_delete(worker->timer);
    pthread_sigmask(SIG_BLOCK, &timer, 0);
    self = 0;
    if (wants('a')) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, 0);
        unmap(stack.ss_sp, STACK / PAGE);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    what = arguments[2];
    plugin = arguments[3];
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART | (wants('a') ? SA_ONSTACK : 0)};
    sigaction(SIGUSR1, &action, 0);
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            memset(&workers[i], 0, sizeof workers[i]);
            workers[i].random = (strtoul(arguments[1], 0, 10) * 8 + round * 4 + i + 1) * 0x9e3779b97f4a7c15;
            workers[i].left = -1;
            pthread_create(&threads[i], 0, work, &workers[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], 0);
    }
    return 0;
}
