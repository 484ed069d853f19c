/* Control flow that leaves frames behind: jumps nested | handler | storm | coroutines | abandoned */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf target;
static volatile sig_atomic_t may_jump, jumps, ticks;

static __attribute__((noinline)) void sink(int depth) {
    void *block = malloc(5001);
    if (depth == 0)
        siglongjmp(target, 1);
    sink(depth - 1);
    free(block);
}

static __attribute__((noinline)) void landed(void) {
    free(malloc(5002));
}

static int nested(void) {
    for (volatile int round = 0; round < 100; round++) {
        if (!sigsetjmp(target, 0))
            sink(round % 20);
        landed();
    }
    return 0;
}

static void on_alarm(int signal) {
    (void)signal;
    ticks++;
    if (may_jump) {
        may_jump = 0;
        jumps++;
        siglongjmp(target, 1);
    }
}

static void alarm_every(long microseconds) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

/* Malloc must not be left by a jump, so the handler jumps only out of the code between two calls. */
static int handler(void) {
    alarm_every(1000);
    while (jumps < 200) {
        if (sigsetjmp(target, 1) && jumps >= 200)
            break;
        for (int i = 0; i < 100; i++) {
            void *block = malloc(5003);
            free(block);
        }
        may_jump = 1;
        for (volatile int spin = 0; spin < 20000; spin++)
            ;
        may_jump = 0;
    }
    alarm_every(0);
    landed();
    return 0;
}

static int storm(void) {
    alarm_every(100);
    int rounds = 0;
    while (ticks < 300) {
        free(malloc(5004));
        rounds++;
    }
    alarm_every(0);
    FILE *file = fopen("rounds", "w");
    fprintf(file, "%d\n", rounds);
    return fclose(file);
}

/* With an allocator that a jump cannot hurt (see bump.c), jumps leave our own code, too. */
static int abandoned(void) {
    free(malloc(106));
    alarm_every(500);
    while (jumps < 150) {
        if (sigsetjmp(target, 1) && jumps >= 150)
            break;
        may_jump = 1;
        for (int i = 0; i < 1000; i++)
            free(malloc(105));
        may_jump = 0;
    }
    alarm_every(0);
    /* From the frame that was jumped into: only here can the library tell that the call it was in has ended. */
    free(malloc(107));
    for (int i = 0; i < 1000; i++)
        landed();
    return 0;
}

static ucontext_t home, left, right;

static __attribute__((noinline)) void left_side(void) {
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(5101);
        swapcontext(&left, &right);
        free(block);
    }
}

static __attribute__((noinline)) void right_side(void) {
    for (;;) {
        void *block = malloc(5102);
        swapcontext(&right, &left);
        free(block);
    }
}

static int coroutines(void) {
    enum { STACK = 65536 };
    getcontext(&left);
    left.uc_stack.ss_sp = malloc(STACK);
    left.uc_stack.ss_size = STACK;
    left.uc_link = &home;
    makecontext(&left, left_side, 0);
    getcontext(&right);
    right.uc_stack.ss_sp = malloc(STACK);
    right.uc_stack.ss_size = STACK;
    right.uc_link = &home;
    makecontext(&right, right_side, 0);
    swapcontext(&home, &left);
    landed();
    return 0;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "nested"))
        return nested();
    if (!strcmp(mode, "handler"))
        return handler();
    if (!strcmp(mode, "storm"))
        return storm();
    if (!strcmp(mode, "abandoned"))
        return abandoned();
    if (!strcmp(mode, "coroutines"))
        return coroutines();
    return 9;
}
