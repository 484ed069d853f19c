// Programs that lock themselves in: seccomp filters that kill whoever makes a call nobody foresaw.
//
// sandbox <filter> [before]: makes <before> blocks of 7000 bytes, marks the moment by one of 7001, installs the filter,
// makes and frees ROUNDS blocks of 7002 and ends without a further allocation.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100000

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ON(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define ELSE(action) BPF_STMT(BPF_RET | BPF_K, action)
#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS

static struct sock_filter no_clock[] = {
    NUMBER, ON(SYS_clock_gettime, KILL), ON(SYS_gettimeofday, KILL),
#ifdef SYS_time
    ON(SYS_time, KILL),
#endif
    ELSE(ALLOW)};

static struct sock_filter few_calls[] = {
    NUMBER,          ON(SYS_read, ALLOW),   ON(SYS_write, ALLOW), ON(SYS_exit, ALLOW), ON(SYS_exit_group, ALLOW),
    ON(SYS_rt_sigreturn, ALLOW), ON(SYS_futex, ALLOW), ON(SYS_mmap, ALLOW), ON(SYS_munmap, ALLOW),
    ON(SYS_brk, ALLOW), ON(SYS_mprotect, ALLOW), ELSE(KILL)};

static struct sock_filter no_output[] = {
    NUMBER, ON(SYS_read, ALLOW), ON(SYS_exit_group, ALLOW), ON(SYS_brk, ALLOW), ELSE(KILL)};

/// Writing is allowed to the standard streams only.
static struct sock_filter standard_streams[] = {
    NUMBER,
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_writev, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev2, 0, 4),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, KILL),
    BPF_STMT(BPF_RET | BPF_K, ALLOW),
    BPF_STMT(BPF_RET | BPF_K, ALLOW)};

/// Answers 0 to every write, and writes nothing.
static struct sock_filter lying_writes[] = {
    NUMBER, ON(SYS_write, SECCOMP_RET_ERRNO | 0), ON(SYS_writev, SECCOMP_RET_ERRNO | 0),
    ON(SYS_pwritev2, SECCOMP_RET_ERRNO | 0), ELSE(ALLOW)};

static struct sock_filter no_directories[] = {
    NUMBER, ON(SYS_mkdirat, KILL),
#ifdef SYS_mkdir
    ON(SYS_mkdir, KILL),
#endif
    ELSE(ALLOW)};

/// A program that begins under it is killed by what our libraries do then, and not by what it does itself.
static struct sock_filter no_beginnings[] = {NUMBER, ON(SYS_process_vm_readv, KILL), ELSE(ALLOW)};

/// As kernels and emulators answer that do not have the call.
static struct sock_filter no_reservation[] = {NUMBER, ON(SYS_fallocate, SECCOMP_RET_ERRNO | ENOSYS), ELSE(ALLOW)};

static void die(const char *what) {
    perror(what);
    exit(2);
}

static void by_prctl(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) die("filter");
}

static void by_system_call(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
    // As libraries ask whether there is such a call.
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) != -1 || errno != EFAULT)
        die("probe");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) die("filter");
}

static void by_raw_prctl(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
    if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) die("filter");
}

#define PROGRAM(filter) filter, sizeof filter / sizeof *filter

static void allocate(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

static pthread_barrier_t barrier;

/// Has its first event under the filter its creator installs.
static void *late(void *unused) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    allocate(1000, 7003);
    pthread_barrier_wait(&barrier);
    // The end of a thread would need calls that are gone: nobody comes.
    pthread_barrier_wait(&barrier);
    return unused;
}

/// Never had a clock.
static void *unclocked(void *unused) {
    allocate(1000, 7003);
    return unused;
}

static void wait_for(pid_t child, const char *whose) {
    int status;
    if (waitpid(child, &status, 0) != child || status) die(whose);
}

/// Locks itself in before it has had an event, as those do that are forked for it, and has a child.
static void child_at_once(const char *filter) {
    pid_t child = fork();
    if (child != 0) return wait_for(child, "child");
#ifdef __x86_64__
    if (!strcmp(filter, "no-counter-at-once") && prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) die("counter");
#endif
    if (!strcmp(filter, "no-directories-at-once")) by_prctl(PROGRAM(no_directories));
    allocate(1000, 7003);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        allocate(10, 7003);
        _exit(0);
    }
    wait_for(grandchild, "grandchild");
    _exit(0);
}

int main(int argc, char **argv) {
    const char *filter = argc > 1 ? argv[1] : "";
    pthread_t thread;
    allocate(argc > 2 ? atoi(argv[2]) : 0, 7000);
    // The heap is to grow before the calls that make it grow are gone.
    free(malloc(100000));
    if (!strcmp(filter, "late-thread")) {
        pthread_barrier_init(&barrier, NULL, 2);
        if (pthread_create(&thread, NULL, late, NULL)) die("thread");
        pthread_barrier_wait(&barrier);
    }
    free(malloc(7001));
    if (!strcmp(filter, "no-clock")) by_prctl(PROGRAM(no_clock));
    else if (!strcmp(filter, "few-calls")) by_prctl(PROGRAM(few_calls));
    else if (!strcmp(filter, "few-calls-by-system-call")) by_system_call(PROGRAM(few_calls));
    else if (!strcmp(filter, "few-calls-by-raw-prctl")) by_raw_prctl(PROGRAM(few_calls));
    else if (!strcmp(filter, "late-thread")) by_system_call(PROGRAM(few_calls));
    else if (!strcmp(filter, "no-output")) by_prctl(PROGRAM(no_output));
    else if (!strcmp(filter, "standard-streams")) by_system_call(PROGRAM(standard_streams));
    else if (!strcmp(filter, "lying-writes")) by_prctl(PROGRAM(lying_writes));
    else if (!strcmp(filter, "no-beginnings")) {
        by_prctl(PROGRAM(no_beginnings));
        execl("/proc/self/exe", argv[0], "refused", argv[2], NULL);
        die("exec");
    }
    else if (!strcmp(filter, "no-reservation")) {
        // The next image does not know of the filter it has.
        by_prctl(PROGRAM(no_reservation));
        execl("/proc/self/exe", argv[0], "refused", argv[2], NULL);
        die("exec");
    }
    else if (!strcmp(filter, "borrower")) {
        pid_t child = vfork();
        if (child == 0) {
            by_prctl(PROGRAM(few_calls));
            _exit(0);
        }
        wait_for(child, "borrower");
    }
    else if (!strcmp(filter, "children")) by_prctl(PROGRAM(no_directories));
    else if (strstr(filter, "-at-once")) child_at_once(filter);
#ifdef __x86_64__
    else if (!strcmp(filter, "no-counter")) {
        if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) die("counter");
        if (pthread_create(&thread, NULL, unclocked, NULL) || pthread_join(thread, NULL)) die("thread");
    }
#endif
    else if (!strcmp(filter, "strict")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) die("strict");
    } else if (!strcmp(filter, "refused")) {
        // The kernel takes no empty program, and none that jumps out of itself: there is no filter then.
        struct sock_fprog empty = {0, few_calls}, endless = {1, few_calls};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("privileges");
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty) != -1 || errno != EINVAL) die("empty");
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &endless) != -1 || errno != EINVAL) die("endless");
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)64) != -1 || errno != EFAULT) die("nowhere");
    } else die("usage");

    if (!strcmp(filter, "late-thread")) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        _exit(0);
    }
    if (!strcmp(filter, "children")) {
        pid_t child = fork();
        if (child == 0) {
            allocate(1000, 7003);
            _exit(0);
        }
        wait_for(child, "child");
    }
    allocate(ROUNDS, 7002);
    if (!strcmp(filter, "strict")) syscall(SYS_exit, 0);
    exit(0);
}
