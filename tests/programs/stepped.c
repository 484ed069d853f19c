/* Whether an event of one thread can wait for another thread that is stopped within an event.

   A tracer steps thread A through events, instruction by instruction. Wherever A is at an instruction of the recording
   libraries for the first time, it is held there while thread B records: events of each kind with stacks that are new, and
   where A appends its full window, a whole window of events. If B does not come to their end, it waits for what A holds:
   the program says where A is and ends with status 3. The deadline is for that case alone; nothing is measured.

   Both threads use blocks of their own caches: the C library's lock is not the question.

   stepped LIBRARY...: names of the preloaded libraries whose instructions count. Status 0 if nobody waited, 77 if the
   kernel does not allow tracing. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITS = 3,
    NOT_ALLOWED = 77,
    DEADLINE_SECONDS = 10,
    KINDS_ROUNDS = 6,
    /* The windows of a thread may grow at first; then they have their size. */
    WINDOWS_BEFORE = 12,
    MOST_LIBRARIES = 8,
    PLACES = 1 << 16,
    /* A window is full long before. */
    MOST_PAIRS_OF_A_WINDOW = 1000000,
    MOST_STEPS = 20000000
};

/* What both processes see. */
static struct {
    volatile pid_t a;
    volatile int b_is_ready;
    /* A: goes on as far as it may, each part at a word of the tracer. */
    volatile int part_allowed, part_done;
    volatile long pairs, pairs_allowed;
    /* B: does so many pairs, or each kind of event if 0, when `asked` has grown. */
    volatile long order, asked, answered;
} *shared;

static void pair(void) {
    free(malloc(100));
}

static void each_kind(void) {
    pair();
    free(calloc(2, 50));
    free(realloc(malloc(100), 120));
    void *aligned = 0;
    if (posix_memalign(&aligned, 64, 100) == 0)
        free(aligned);
    void *map = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map = mremap(map, 65536, 131072, MREMAP_MAYMOVE);
    munmap(map, 131072);
}

/* Each number has a stack of its own. */
static void left(unsigned number, int depth);
static void right(unsigned number, int depth);
static void below(unsigned number, int depth) {
    if (depth == 0)
        each_kind();
    else if (number & 1)
        left(number >> 1, depth - 1);
    else
        right(number >> 1, depth - 1);
}
static __attribute__((noinline)) void left(unsigned number, int depth) {
    below(number, depth);
}
static __attribute__((noinline)) void right(unsigned number, int depth) {
    below(number, depth);
}

static void *record_when_asked(void *nothing) {
    pair();
    shared->b_is_ready = 1;
    for (long round = 0;; round++) {
        while (shared->asked == round)
            sched_yield();
        if (shared->order == 0)
            below(round, 16);
        for (long i = 0; i < shared->order; i++)
            pair();
        shared->answered = round + 1;
    }
    return nothing;
}

static void begin_part(int part) {
    shared->part_done = part - 1;
    while (shared->part_allowed < part)
        ;
}

static void *record_stepped(void *nothing) {
    shared->a = syscall(SYS_gettid);
    /* From the thread's first event on. */
    begin_part(1);
    for (int i = 0; i < KINDS_ROUNDS; i++)
        below(i, 3);
    begin_part(2);
    for (;; shared->pairs++) {
        pair();
        while (shared->pairs >= shared->pairs_allowed)
            ;
    }
    return nothing;
}

static pid_t target;

static void end(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    if (target > 0)
        kill(target, SIGKILL);
    exit(status);
}

static void traced_process(void) {
    pthread_t a, b;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pair();
    if (pthread_create(&b, 0, record_when_asked, 0) || pthread_create(&a, 0, record_stepped, 0))
        _exit(9);
    for (;;)
        pause();
}

static struct library {
    const char *name;
    uintptr_t begin, end, offset;
} libraries[MOST_LIBRARIES];

static void find_libraries(char **names) {
    char path[64], line[4096], rights[8];
    snprintf(path, sizeof path, "/proc/%d/maps", target);
    for (int i = 0; names[i] && i < MOST_LIBRARIES; i++) {
        FILE *maps = fopen(path, "r");
        while (maps && fgets(line, sizeof line, maps)) {
            struct library found = {.name = names[i]};
            if (sscanf(line, "%lx-%lx %7s %lx", &found.begin, &found.end, rights, &found.offset) == 4 && rights[2] == 'x' &&
                strstr(line, names[i]))
                libraries[i] = found;
        }
        if (maps)
            fclose(maps);
        if (!libraries[i].name)
            end(2, "%s is not preloaded", names[i]);
    }
}

static const struct library *library_at(uintptr_t address) {
    for (int i = 0; i < MOST_LIBRARIES; i++)
        if (libraries[i].begin <= address && address < libraries[i].end)
            return &libraries[i];
    return 0;
}

static uintptr_t places[PLACES];
static int held;

static int is_new(uintptr_t place) {
    size_t at = place * 0x9e3779b97f4a7c15u >> 48;
    for (; places[at % PLACES]; at++)
        if (places[at % PLACES] == place)
            return 0;
    if (++held > PLACES / 2)
        end(2, "too many places");
    places[at % PLACES] = place;
    return 1;
}

static void wait_for_a(void) {
    int status;
    if (waitpid(shared->a, &status, __WALL) != shared->a || !WIFSTOPPED(status))
        end(2, "the stepped thread has ended");
}

static void trace_a(void) {
    if (ptrace(PTRACE_SEIZE, shared->a, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD))
        end(errno == EPERM ? NOT_ALLOWED : 2, "the thread cannot be traced: %s", strerror(errno));
    ptrace(PTRACE_INTERRUPT, shared->a, 0, 0);
    wait_for_a();
}

/* By whichever call a window is appended. */
static int is_write(unsigned long long call) {
    return call == SYS_write || call == SYS_writev || call == SYS_pwrite64 || call == SYS_pwritev || call == SYS_pwritev2;
}

static struct user_regs_struct registers_of_a(void) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, shared->a, 0, &registers))
        end(2, "the registers cannot be read: %s", strerror(errno));
    return registers;
}

/* With A where it is. */
static void let_b_record(long pairs, uintptr_t place) {
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    shared->order = pairs;
    shared->asked++;
    while (shared->answered != shared->asked) {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - began.tv_sec > DEADLINE_SECONDS) {
            const struct library *library = library_at(place);
            end(WAITS, "a thread waits for another one that is stopped at %s+0x%lx", library->name,
                place - library->begin + library->offset);
        }
    }
}

/* A makes one step; B records first if A has never been where it is. Returns whether A appends a window in this step. */
static int step(long pairs) {
    struct user_regs_struct registers = registers_of_a();
    int appends = 0;
    if (library_at(registers.rip)) {
        if (is_new(registers.rip))
            let_b_record(pairs, registers.rip);
        long instruction = ptrace(PTRACE_PEEKTEXT, shared->a, registers.rip, 0);
        appends = (instruction & 0xffff) == 0x050f && is_write(registers.rax);
    }
    if (ptrace(PTRACE_SINGLESTEP, shared->a, 0, 0))
        end(2, "no step: %s", strerror(errno));
    wait_for_a();
    return appends;
}

static void step_through_each_kind(void) {
    shared->part_allowed = 1;
    while (shared->part_done == 0)
        step(0);
}

/* Lets A run until it appends a window; returns how many pairs it had then made. */
static long run_until_appended(void) {
    shared->pairs_allowed = shared->pairs + MOST_PAIRS_OF_A_WINDOW;
    for (;;) {
        ptrace(PTRACE_SYSCALL, shared->a, 0, 0);
        int status;
        pid_t stopped;
        while ((stopped = waitpid(shared->a, &status, __WALL | WNOHANG)) == 0) {
            if (shared->pairs == shared->pairs_allowed)
                end(2, "no window was appended in %d pairs", MOST_PAIRS_OF_A_WINDOW);
            sched_yield();
        }
        if (stopped != shared->a || !WIFSTOPPED(status))
            end(2, "the stepped thread has ended");
        struct user_regs_struct registers = registers_of_a();
        /* It stops before and after a call: before it the answer is not there yet. */
        if (library_at(registers.rip) && is_write(registers.orig_rax) && (long)registers.rax == -ENOSYS)
            return shared->pairs;
    }
}

static void step_through_a_full_window(void) {
    long previous = 0, last = 0;
    shared->part_allowed = 2;
    for (int i = 0; i < WINDOWS_BEFORE; i++) {
        previous = last;
        last = run_until_appended();
    }
    /* On foot only near the end of the next window. */
    long window = last - previous;
    shared->pairs_allowed = last + window - window / 40 - 10;
    ptrace(PTRACE_CONT, shared->a, 0, 0);
    while (shared->pairs < shared->pairs_allowed)
        sched_yield();
    ptrace(PTRACE_INTERRUPT, shared->a, 0, 0);
    wait_for_a();
    shared->pairs_allowed += MOST_PAIRS_OF_A_WINDOW;
    for (long steps = 0; !step(window + window / 10); steps++)
        if (steps > MOST_STEPS)
            end(2, "no window was appended");
    /* What comes after the call, and the event that needed the room. */
    for (long pairs = shared->pairs; shared->pairs < pairs + 2;)
        step(window + window / 10);
}

int main(int count, char **names) {
    if (count < 2)
        return 9;
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 9;
    target = fork();
    if (target == 0)
        traced_process();
    while (!shared->a || !shared->b_is_ready)
        sched_yield();
    trace_a();
    find_libraries(names + 1);
    step_through_each_kind();
    int kinds = held;
    step_through_a_full_window();
    end(0, "held at %d instructions of events and %d of a full window: nobody waited", kinds, held - kinds);
}
