// Programs whose seccomp filter no library sees: it is installed by a system call instruction of their own, and kills whoever
// makes a call nobody foresaw.
//
// own_filter main|thread|children|counted|next-image SPOOLS: makes BEFORE blocks of 7000 bytes, locks itself (or one thread) in, waits
// until it has been noticed from outside, makes and frees ROUNDS blocks of 7002 and ends. SPOOLS is the output directory.
//   counted: the filter is installed by the C library's prctl, so that nobody has to notice anything
//   next-image: the same, and the filter is there from before the program
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEFORE = 1000, ROUNDS = 100000, FILTERS_COUNTED = 3760, PATIENCE_S = 60 };

#define ON(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define ALLOW SECCOMP_RET_ALLOW

static struct sock_filter few_calls[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ON(SYS_read, ALLOW), ON(SYS_write, ALLOW), ON(SYS_exit, ALLOW), ON(SYS_exit_group, ALLOW), ON(SYS_futex, ALLOW),
    ON(SYS_rt_sigreturn, ALLOW), ON(SYS_munmap, ALLOW), ON(SYS_brk, ALLOW), ON(SYS_madvise, ALLOW),
    ON(SYS_rt_sigprocmask, ALLOW), ON(SYS_clone, ALLOW), ON(SYS_wait4, ALLOW), ON(SYS_set_robust_list, ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};

/// What a program needs to become another, and to end; all else is as it is.
static struct sock_filter no_directory_changes[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ON(SYS_chdir, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, ALLOW)};

static void die(const char *what) {
    perror(what);
    exit(2);
}

static long call(long number, long a, long b, long c, long d, long e) {
#ifdef __x86_64__
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return answer;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#endif
}

static void lock_in(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
    if (call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0, 0)) die("filter");
}

static void lock_in_by_library(struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no new privileges");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) die("filter");
}

#define PROGRAM(filter) filter, sizeof filter / sizeof *filter

static void allocate(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

/// The word by which the recording of this process is told, from its own file.
static const volatile unsigned *told(const char *spools) {
    char path[4096], start[64];
    const char *name = NULL;
    snprintf(start, sizeof start, "_%d_", getpid());
    DIR *directory = opendir(spools);
    if (!directory) die(spools);
    for (struct dirent *entry; !name && (entry = readdir(directory));)
        if (strstr(entry->d_name, start)) name = entry->d_name;
    if (!name) die("no recording");
    snprintf(path, sizeof path, "%s/%s/spool/windows.spool", spools, name);
    closedir(directory);
    int file = open(path, O_RDONLY);
    const char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED) die(path);
    close(file);
    return (const volatile unsigned *)(page + FILTERS_COUNTED);
}

static long now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void await(const volatile unsigned *word) {
    for (long until = now_s() + PATIENCE_S; !*word && now_s() < until;) {}
    if (!*word) _exit(3);
}

static pthread_barrier_t barrier;

static void *locked_in(void *unused) {
    // Its own heap is to be there.
    allocate(1, 7001);
    lock_in(PROGRAM(few_calls));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    allocate(ROUNDS, 7002);
    return unused;
}

int main(int argc, char **argv) {
    const char *how = argc > 2 ? argv[1] : "";
    if (!strcmp(how, "next-image")) {
        lock_in_by_library(PROGRAM(no_directory_changes));
        execl("/proc/self/exe", argv[0], "nothing", argv[2], NULL);
        die("exec");
    }
    allocate(BEFORE, 7000);
    // The heap is to grow before the calls that make it grow are gone.
    free(malloc(100000));
    const volatile unsigned *word = argc > 2 ? told(argv[2]) : NULL;
    free(malloc(7001));
    if (!strcmp(how, "main")) {
        lock_in(PROGRAM(few_calls));
        await(word);
    } else if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 2);
        if (pthread_create(&thread, NULL, locked_in, NULL)) die("thread");
        pthread_barrier_wait(&barrier);
        await(word);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        return 0;
    } else if (!strcmp(how, "children")) {
        lock_in(PROGRAM(few_calls));
        await(word);
        pid_t child = fork();
        if (child == 0) {
            allocate(ROUNDS, 7003);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) _exit(4);
    } else if (!strcmp(how, "counted")) {
        lock_in_by_library(PROGRAM(no_directory_changes));
    } else if (strcmp(how, "nothing")) {
        fprintf(stderr, "usage: own_filter main|thread|children|counted|next-image SPOOLS\n");
        return 2;
    }
    if (!strcmp(how, "counted") || !strcmp(how, "nothing"))
        // As long as a keeper may need for two looks, if it has time at all.
        for (long until = now_s() + 2; now_s() < until;) {}
    allocate(ROUNDS, 7002);
    return 0;
}
