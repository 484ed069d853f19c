/* Launches kernels through all ten launch functions and prints what it did as one line of JSON.
 *
 *   kernels run global|local THREADS LAUNCHES [finalize|twice|killed|busy] [fork] [user] [copies] [device1] [log] [jump]
 *   kernels timing LAUNCHES FUNCTION
 *   kernels absent
 *
 * `run`: each thread launches LAUNCHES kernels on a stream of its own, function f launching kernel `k_<f>`; `global` and
 * `local` say who sees the libraries. `busy`: the program exits while its threads launch.
 * `timing`: one thread, one function. `absent`: the ten functions without CANN. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 10, MOST_THREADS = 64 };
static const char *const names[FUNCTIONS] = {
    "rtKernelLaunch", "rtKernelLaunchWithHandleV2", "rtKernelLaunchWithFlagV2", "rtAicpuKernelLaunchExWithArgs",
    "rtLaunchKernelByFuncHandle", "rtLaunchKernelByFuncHandleV2", "aclrtLaunchKernel", "aclrtLaunchKernelV2",
    "aclrtLaunchKernelWithConfig", "aclrtLaunchKernelWithHostArgs"};
/* What the tool stands in front of: two of ACL's functions jump to others, and it is those. */
static const char *const exported[FUNCTIONS] = {
    "rtKernelLaunch", "rtKernelLaunchWithHandleV2", "rtKernelLaunchWithFlagV2", "rtAicpuKernelLaunchExWithArgs",
    "rtLaunchKernelByFuncHandle", "rtLaunchKernelByFuncHandleV2", "aclrtLaunchKernelImpl", "aclrtLaunchKernelV2Impl",
    "aclrtLaunchKernelWithConfig", "aclrtLaunchKernelWithHostArgs"};

static void *runtime, *acl;
static void *functions[FUNCTIONS], *handles[FUNCTIONS];
static char stubs[FUNCTIONS];

static void fail(const char *what, int answer) {
    fprintf(stderr, "%s failed: %d\n", what, answer);
    exit(1);
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name, -1);
    return found;
}

static void *open_library(const char *library, int how) {
    void *handle = dlopen(library, RTLD_NOW | how);
    if (!handle) fprintf(stderr, "%s\n", dlerror()), exit(1);
    return handle;
}

static int launch(int which, void *stream) {
    void *call = functions[which], *handle = handles[which];
    static void *arguments[8];
    char name[16];
    switch (which) {
    case 0: return ((int (*)(const void *, uint32_t, void *, uint32_t, void *, void *))call)(&stubs[0], 1, arguments, 8, NULL, stream);
    case 1: return ((int (*)(void *, uint64_t, uint32_t, void *, void *, void *, const void *))call)(handle, 7, 1, arguments, NULL, stream, NULL);
    case 2: return ((int (*)(const void *, uint32_t, void *, void *, void *, uint32_t, const void *))call)(&stubs[2], 1, arguments, NULL, stream, 0, NULL);
    case 3:
        snprintf(name, sizeof name, "k_%d", which);
        return ((int (*)(uint32_t, const char *, uint32_t, const void *, void *, void *, uint32_t))call)(2, name, 1, arguments, NULL, stream, 0);
    case 4: return ((int (*)(void *, uint32_t, void *, void *))call)(handle, 1, arguments, stream);
    case 5: return ((int (*)(void *, uint32_t, void *, void *, const void *))call)(handle, 1, arguments, stream, NULL);
    case 6: return ((int (*)(void *, uint32_t, const void *, size_t, void *))call)(handle, 1, arguments, 8, stream);
    case 7: return ((int (*)(void *, uint32_t, const void *, size_t, void *, void *))call)(handle, 1, arguments, 8, NULL, stream);
    case 8: return ((int (*)(void *, uint32_t, void *, void *, void *, void *))call)(handle, 1, stream, NULL, arguments, NULL);
    default: return ((int (*)(void *, uint32_t, void *, void *, void *, size_t, void *, size_t))call)(handle, 1, stream, NULL, arguments, 8, NULL, 0);
    }
}

static long launches;
static int done;
static int with_copies, only = -1;
static int device;

static void *work(void *argument) {
    int (*set_device)(int32_t) = function(acl, "aclrtSetDevice");
    int (*make_stream)(void **, int32_t) = function(runtime, "rtStreamCreate");
    int (*copy)(void *, uint64_t, const void *, uint64_t, uint32_t) = function(runtime, "rtMemcpy");
    int answer;
    void *stream;
    (void)argument;
    if ((answer = set_device(device))) fail("aclrtSetDevice", answer);
    if ((answer = make_stream(&stream, 0))) fail("rtStreamCreate", answer);
    for (long i = 0; i < launches; i++) {
        int which = only >= 0 ? only : (int)(i % FUNCTIONS);
        if ((answer = launch(which, stream))) fail(names[which], answer);
        if (i == 1000) __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
        if (with_copies && i % 16 == 0) {
            char from[64] = "x", to[64];
            if ((answer = copy(to, sizeof to, from, sizeof from, 0))) fail("rtMemcpy", answer);
        }
    }
    return NULL;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void prepare(int how) {
    runtime = open_library("libruntime.so", how);
    acl = open_library("libascendcl.so", how);
    int (*init)(const char *) = function(acl, "aclInit");
    int (*set_device)(int32_t) = function(acl, "aclrtSetDevice");
    int (*register_stub)(void *, const void *, const char *, const void *, uint32_t) = function(runtime, "rtFunctionRegister");
    int (*by_name)(void *, const char *, void **) = function(runtime, "rtBinaryGetFunctionByName");
    int (*allocate)(void **, size_t, int) = function(acl, "aclrtMallocAlign32");
    int answer;
    void *block;
    if ((answer = init(NULL))) fail("aclInit", answer);
    if ((answer = set_device(device))) fail("aclrtSetDevice", answer);
    if ((answer = allocate(&block, 4096, 0))) fail("aclrtMallocAlign32", answer);
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "k_%d", i);
        /* As a library that is linked with CANN would get it: whoever stands in front comes first. */
        functions[i] = dlsym(RTLD_DEFAULT, names[i]);
        if (!functions[i]) functions[i] = function(i < 6 ? runtime : acl, names[i]);
        if (register_stub(NULL, &stubs[i], name, NULL, 0)) fail("rtFunctionRegister", i);
        if (by_name(NULL, name, &handles[i])) fail("rtBinaryGetFunctionByName", i);
    }
}

static void run_threads(int threads) {
    pthread_t ids[MOST_THREADS];
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

static void finalize(void) {
    int (*end)(void) = function(acl, "aclFinalize");
    int answer = end();
    if (answer) fail("aclFinalize", answer);
}

static jmp_buf outside;

static void leave(void *data) {
    (void)data;
    longjmp(outside, 1);
}

/* Launches that never return, as when a handler of a signal jumps away. */
static void jump_out_of_launches(void) {
    void *(*make)(const char *, void (*)(void *)) = function(runtime, "simRtKernel");
    void *handle = make("k_left", leave);
    static void *data[8];
    for (volatile int i = 0; i < 10; i++) {
        if (!setjmp(outside)) {
            ((int (*)(void *, uint64_t, uint32_t, void *, void *, void *, const void *))functions[1])(handle, 7, 1, data, NULL, NULL, NULL);
            fail("a kernel that leaves", i);
        }
    }
}

/* As another profiler would. */
static void start_own_log(void) {
    uint32_t switches[11] = {1};
    struct { uint32_t type, period, real_time; void *switches; uint32_t size; } parameters = {0, 20, 1, switches, 36};
    int (*start)(uint32_t, uint32_t, void *) =
        function(open_library("libascend_hal.so", RTLD_LOCAL), "prof_drv_start");
    int answer = start(device, 50, &parameters);
    if (answer) fail("prof_drv_start", answer);
}

static int run(int count, char **arguments) {
    int threads = atoi(arguments[3]), ending = 0, forking = 0, twice = 0, killed = 0, user = 0, own_log = 0, jumping = 0, busy = 0;
    launches = atol(arguments[4]);
    for (int i = 5; i < count; i++) {
        if (!strcmp(arguments[i], "finalize")) ending = 1;
        else if (!strcmp(arguments[i], "twice")) twice = ending = 1;
        else if (!strcmp(arguments[i], "killed")) killed = 1;
        else if (!strcmp(arguments[i], "user")) user = 1;
        else if (!strcmp(arguments[i], "fork")) forking = 1;
        else if (!strcmp(arguments[i], "copies")) with_copies = 1;
        else if (!strcmp(arguments[i], "busy")) busy = 1;
        else if (!strcmp(arguments[i], "jump")) jumping = 1;
        else if (!strcmp(arguments[i], "log")) own_log = 1;
        else if (!strcmp(arguments[i], "device1")) device = 1;
        else return fprintf(stderr, "what is %s?\n", arguments[i]), 2;
    }
    prepare(!strcmp(arguments[2], "local") ? RTLD_LOCAL : RTLD_GLOBAL);
    if (own_log) start_own_log();
    if (jumping) jump_out_of_launches();
    if (busy) {
        pthread_t ids[MOST_THREADS];
        for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, NULL);
        while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) sched_yield();
        exit(0);
    }
    double began = seconds();
    if (threads == 1) work(NULL); else run_threads(threads);
    double took = seconds() - began;
    if (twice) {
        int (*init)(const char *) = function(acl, "aclInit");
        finalize();
        if (init(NULL)) fail("aclInit again", 1);
        run_threads(threads);
    }
    /* Waits for every thread of the process to take a signal. */
    if (user && setuid(getuid())) fail("setuid", 1);
    if (forking) {
        pid_t child = fork();
        if (child == 0) exit(0);
        int status;
        waitpid(child, &status, 0);
        if (status) fail("the forked child", status);
    }
    if (ending) finalize();
    printf("{\"threads\": %d, \"launches\": %ld, \"ns\": %.1f}\n", threads, launches * threads * (twice ? 2 : 1),
           took * 1e9 / (launches * threads));
    fflush(stdout);
    if (killed) raise(SIGKILL);
    return 0;
}

static int absent(void) {
    printf("{");
    for (int i = 0; i < FUNCTIONS; i++) {
        int (*call)(void *, void *, void *, void *, void *, void *, void *, void *) = dlsym(RTLD_DEFAULT, exported[i]);
        int answer = call ? call(0, 0, 0, 0, 0, 0, 0, 0) : -1;
        printf("%s\"%s\": %d", i ? ", " : "", exported[i], answer);
    }
    printf("}\n");
    return 0;
}

int main(int count, char **arguments) {
    if (count >= 2 && !strcmp(arguments[1], "absent")) return absent();
    if (count >= 5 && !strcmp(arguments[1], "run")) return run(count, arguments);
    if (count >= 4 && !strcmp(arguments[1], "timing")) {
        only = atoi(arguments[3]);
        launches = atol(arguments[2]);
        prepare(RTLD_GLOBAL);
        double began = seconds();
        work(NULL);
        printf("{\"ns\": %.1f}\n", (seconds() - began) * 1e9 / launches);
        return 0;
    }
    return fprintf(stderr, "run, absent or timing\n"), 2;
}
