/* Two contexts on one thread, switched by a signal handler in the middle of whatever runs: of the first, which only maps and
   unmaps, so that it may be interrupted anywhere. The other allocates, undisturbed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

enum { MAPPINGS = 100000, BLOCKS = 3, MAPPED = 28672, STACK = 1 << 20 };

static ucontext_t first, other;
static volatile long switches;

static void *map(size_t length) {
    return mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void preempt(int signal) {
    int error = errno;
    (void)signal;
    switches++;
    swapcontext(&first, &other);
    errno = error;
}

static void allocate(void) {
    for (;;) {
        for (int i = 0; i < BLOCKS; i++)
            free(malloc(6201));
        swapcontext(&other, &first);
    }
}

static void timer(int microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, 0);
}

int main(void) {
    getcontext(&other);
    sigaddset(&other.uc_sigmask, SIGALRM);
    other.uc_stack.ss_sp = map(STACK);
    other.uc_stack.ss_size = STACK;
    makecontext(&other, allocate, 0);
    struct sigaction action = {.sa_handler = preempt, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    timer(60);
    for (int i = 0; i < MAPPINGS; i++)
        munmap(map(MAPPED), MAPPED);
    timer(0);
    signal(SIGALRM, SIG_IGN);
    FILE *told = fopen("told", "w");
    if (!told || fprintf(told, "%d %ld\n", MAPPINGS, BLOCKS * switches) < 0 || fclose(told))
        return 1;
    return 0;
}
