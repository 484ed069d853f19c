/* Programs that are legal, and hard on whoever is preloaded: hostile MODE
   start_left   children whose first event is left by a jump
   guard_left   a jump out of a call, and then 30,000 calls from below uninitialised arrays
   limited      a thread's first events close to the limit of address space
   vfork_first  threads whose first event is in a vfork child
   no_files     no descriptor is left before the first event; not so in the child it has before
   vfork_only   a process whose only events are those of a vfork child
   recycler     a thread that takes descriptors it does not own for a file of its own, while others allocate
   generations  a chain of a hundred forks; the last tells what it has open and mapped
   crowd        3,000 threads at once, eight events each
   locked       all memory locked, and forty threads */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void map_and_unmap(void) {
    munmap(mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
}

static void alarm_every(long microseconds, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

static sigjmp_buf target;
static volatile sig_atomic_t jumps, wanted_jumps;

static void jump(int signal) {
    (void)signal;
    if (jumps < wanted_jumps) {
        jumps++;
        siglongjmp(target, 1);
    }
}

static int start_left(void) {
    for (volatile int child = 0; child < 40; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            wanted_jumps = 3;
            sigsetjmp(target, 1);
            if (jumps < wanted_jumps) {
                alarm_every(40 + 17 * child, jump);
                for (;;)
                    map_and_unmap();
            }
            alarm_every(0, SIG_IGN);
            for (int i = 0; i < 100; i++)
                free(malloc(6101));
            _exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status)
            return 1;
    }
    return 0;
}

static __attribute__((noinline)) void from_below_arrays(int calls) {
    char array[100000];
    __asm__ volatile("" : : "r"(array) : "memory");
    for (int i = 0; i < calls; i++)
        free(malloc(6102));
}

static int guard_left(void) {
    wanted_jumps = 1;
    if (!sigsetjmp(target, 1)) {
        alarm_every(2000, jump);
        for (;;)
            map_and_unmap();
    }
    alarm_every(0, SIG_IGN);
    from_below_arrays(30000);
    return 0;
}

static size_t status_field(const char *name) {
    /* Without stdio, whose buffers are events. */
    char text[8192];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    char *line = strstr(text, name);
    return line ? strtoul(line + strlen(name), 0, 10) * 1024 : 0;
}

static pthread_barrier_t barrier;

static void *near_the_limit(void *unused) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2000; i++)
        map_and_unmap();
    /* By the C library's own reckoning there is room for this. */
    void *block = mmap(0, 300000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? unused : 0;
}

static int limited(void) {
    free(malloc(6103));
    for (size_t left = 400 << 10; left <= 1600 << 10; left += 300 << 10) {
        pthread_t thread;
        pthread_barrier_init(&barrier, 0, 2);
        pthread_create(&thread, 0, near_the_limit, &barrier);
        struct rlimit before, close_by;
        getrlimit(RLIMIT_AS, &before);
        close_by = before;
        close_by.rlim_cur = status_field("VmSize:") + left;
        setrlimit(RLIMIT_AS, &close_by);
        pthread_barrier_wait(&barrier);
        void *failed;
        pthread_join(thread, &failed);
        setrlimit(RLIMIT_AS, &before);
        if (failed)
            return 1;
    }
    return 0;
}

static void *first_in_vfork(void *unused) {
    pid_t pid = vfork();
    if (pid == 0) {
        map_and_unmap();
        _exit(0);
    }
    waitpid(pid, 0, 0);
    for (int i = 0; i < 5000; i++)
        free(malloc(6104));
    return unused;
}

static void *short_lived(void *unused) {
    for (int i = 0; i < 50; i++)
        free(malloc(6105));
    return unused;
}

static int vfork_first(void) {
    for (int round = 0; round < 20; round++) {
        pthread_t slow[3], quick;
        for (int i = 0; i < 3; i++)
            pthread_create(&slow[i], 0, first_in_vfork, 0);
        for (int i = 0; i < 20; i++) {
            pthread_create(&quick, 0, short_lived, 0);
            pthread_join(quick, 0);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(slow[i], 0);
    }
    return 0;
}

static int no_files(void) {
    if (fork() == 0) {
        map_and_unmap();
        _exit(0);
    }
    wait(0);
    struct rlimit none = {3, 3};
    if (setrlimit(RLIMIT_NOFILE, &none))
        return 1;
    map_and_unmap();
    return 0;
}

static int vfork_only(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < 5; i++)
            map_and_unmap();
        _exit(0);
    }
    return waitpid(pid, 0, 0) != pid;
}

static atomic_int recycled;

static void *recycle(void *file) {
    for (int round = 0; round < 60000; round++) {
        for (int number = 900; number < 903; number++)
            dup2(*(int *)file, number);
        for (int number = 900; number < 903; number++)
            close(number);
    }
    recycled = 1;
    return file;
}

static int recycler(void) {
    int file = open("theirs", O_RDWR | O_CREAT | O_TRUNC, 0600);
    pthread_t thread;
    pthread_create(&thread, 0, recycle, &file);
    while (!recycled)
        free(malloc(6106));
    pthread_join(thread, 0);
    struct stat status;
    fstat(file, &status);
    return status.st_size != 0;
}

static int lines_of(const char *path) {
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static int generations(int left) {
    free(malloc(6107));
    if (left > 0) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(generations(left - 1));
        int status;
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status);
    }
    int open_files = 0;
    for (int number = 0; number < 4096; number++)
        open_files += fcntl(number, F_GETFD) >= 0;
    FILE *told = fopen("told", "w");
    fprintf(told, "%d %d\n", open_files, lines_of("/proc/self/maps"));
    fclose(told);
    return 0;
}

static void *of_a_crowd(void *unused) {
    for (int i = 0; i < 4; i++)
        free(malloc(6108));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* Tells the resident bytes while all are there. */
static int threads_at_once(int count) {
    pthread_t *threads = malloc(count * sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&barrier, 0, count + 1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &small, of_a_crowd, 0))
            return 1;
    pthread_barrier_wait(&barrier);
    FILE *told = fopen("told", "w");
    fprintf(told, "%zu %zu\n", status_field("VmRSS:"), status_field("VmSize:"));
    fclose(told);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
    return 0;
}

static int locked(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        return 1;
    return threads_at_once(40);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "start_left"))
        return start_left();
    if (!strcmp(mode, "guard_left"))
        return guard_left();
    if (!strcmp(mode, "limited"))
        return limited();
    if (!strcmp(mode, "vfork_first"))
        return vfork_first();
    if (!strcmp(mode, "no_files"))
        return no_files();
    if (!strcmp(mode, "vfork_only"))
        return vfork_only();
    if (!strcmp(mode, "recycler"))
        return recycler();
    if (!strcmp(mode, "generations"))
        return generations(100);
    if (!strcmp(mode, "crowd"))
        return threads_at_once(3000);
    if (!strcmp(mode, "locked"))
        return locked();
    return 2;
}
