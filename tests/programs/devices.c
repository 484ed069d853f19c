/* devices load LIBRARY…: opens each out of everybody's sight, uses it if it can be used, and closes it
 * devices fork: reports a pool and a block, and so does a child
 * devices interrupted: children whose first event is a free of device memory, amid signals whose handler allocates
 * devices profiler: forks while another thread registers a profiler; the child launches a kernel */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

int halMemAlloc(void **address, unsigned long long size, unsigned long long flag) __attribute__((weak));
int halMemFree(void *address) __attribute__((weak));
int rtKernelLaunch(void *, unsigned, void *, unsigned, void *, void *) __attribute__((weak));
extern sem_t *registering __attribute__((weak));
extern sem_t *may_register __attribute__((weak));

static int load(char **libraries) {
    for (; *libraries; libraries++) {
        void *library = dlopen(*libraries, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        void *(*work)(void *) = (void *(*)(void *))dlsym(library, "plugin_work");
        if (work)
            work(NULL);
        dlclose(library);
    }
    return 0;
}

static int wait_for(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 3;
}

/* We are the library of mstx, as far as the recorder can see. */
enum { SLOTS = 8 };
static void (*functions[4][SLOTS])(void);
static void (**tables[4][SLOTS])(void);

static int get_table(int module, void ****table, unsigned *size) {
    for (int i = 0; i < SLOTS; i++)
        tables[module][i] = (void (**)(void)) &functions[module][i];
    *table = (void ***)tables[module];
    *size = SLOTS;
    return 0;
}

struct range { uint32_t device; const void *address; uint64_t size; };
struct heap { uint32_t usage, type; const struct range *range; };
struct regions { void *heap; uint32_t type; size_t count; const struct range *ranges; void **handles; };

static void report(void *block) {
    void *(*create)(const char *) = (void *(*)(const char *))functions[2][1];
    void *(*heap)(void *, const struct heap *) = (void *(*)(void *, const struct heap *))functions[3][1];
    void (*blocks)(void *, const struct regions *) = (void (*)(void *, const struct regions *))functions[3][3];
    if (!create || !heap || !blocks)
        return;
    struct range range = {0, block, 1 << 20};
    struct heap description = {0, 0, &range};
    heap(create("ptaCaching"), &description);
    struct range part = {0, block, 512};
    struct regions regions = {NULL, 0, 1, &part, NULL};
    blocks(create("ptaCaching"), &regions);
}

static int forked(void) {
    int (*inject)(int (*)(int, void ****, unsigned *)) =
        (int (*)(int (*)(int, void ****, unsigned *)))dlsym(RTLD_DEFAULT, "InitInjectionMstx");
    if (inject)
        inject(get_table);
    report(functions);
    pid_t child = fork();
    if (child == 0) {
        report(functions);
        _exit(0);
    }
    return wait_for(child);
}

static void allocate(int signal) {
    (void)signal;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
}

static int interrupted(void) {
    enum { CHILDREN = 20 };
    struct sigaction action = {.sa_handler = allocate, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    void *block;
    halMemAlloc(&block, 4096, 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct itimerval often = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &often, NULL);
            halMemFree(block);
            setitimer(ITIMER_REAL, &never, NULL);
            _exit(0);
        }
        if (wait_for(child))
            return 3;
    }
    return 0;
}

static void *use_device(void *unused) {
    void *block;
    halMemAlloc(&block, 4096, 0);
    return unused;
}

static int profiler(void) {
    static sem_t began, may_end;
    sem_init(&began, 0, 0);
    sem_init(&may_end, 0, 0);
    registering = &began;
    may_register = &may_end;
    pthread_t thread;
    pthread_create(&thread, NULL, use_device, NULL);
    /* Bare, nobody registers. */
    if (dlsym(RTLD_DEFAULT, "msmemscope_api"))
        sem_wait(&began);
    pid_t child = fork();
    if (child == 0) {
        registering = NULL;
        _exit(rtKernelLaunch(NULL, 1, NULL, 0, NULL, NULL) == 4711 ? 0 : 4);
    }
    int answer = wait_for(child);
    sem_post(&may_end);
    pthread_join(thread, NULL);
    return answer;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "load"))
        return load(arguments + 2);
    if (!strcmp(mode, "fork"))
        return forked();
    if (!strcmp(mode, "interrupted"))
        return interrupted();
    if (!strcmp(mode, "profiler"))
        return profiler();
    return 9;
}
