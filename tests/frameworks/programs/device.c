/* Does with a device what frameworks do, without a framework, and prints what it did as one line of JSON.
 *
 *   device killed linked|local    fills a device and reports pools, marks and a step; ends by SIGKILL
 *   device absent                 calls the driver's, ACL's and ATB's functions where there is no CANN
 *   device usage DIRECTORY        uses memory of a device and of the host, each time until the usage logs in DIRECTORY say
 *                                 so, and allocates then: what the rows of these blocks must say is known
 *
 * `linked` uses the libraries it was linked with, as C++ programs do; `local` opens them out of everybody's sight, as
 * Python does. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../../crates/memscope-preload/include/msmemscope.h"

#define BLOCKS 10000
#define FREED 100

static void *acl_library = RTLD_DEFAULT, *mstx_library = RTLD_DEFAULT;

static void fail(const char *what, int answer) {
    fprintf(stderr, "%s failed: %d\n", what, answer);
    exit(1);
}

static void *open_locally(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fprintf(stderr, "%s\n", dlerror()), exit(1);
    return handle;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name, -1);
    return found;
}

struct range { uint32_t device; const void *address; uint64_t size; };
struct heap { uint32_t usage, type; const struct range *range; };
struct regions { void *heap; uint32_t type; size_t count; const struct range *ranges; void **handles; };
struct reference { uint32_t kind; const void *address; };
struct references { size_t count; const struct reference *list; };

static void *(*domain_create)(const char *);
static void *(*heap_register)(void *, const struct heap *);
static void (*regions_register)(void *, const struct regions *);
static void (*regions_unregister)(void *, const struct references *);

struct pool { const char *name; int heap_first, with_handles; };

static const struct pool pools[] = {
    {"ptaCaching", 1, 0}, {"ptaWorkspace", 1, 0}, {"atb", 1, 1}, {"mindsporeMemPool", 0, 0}, {"somebody's own", 1, 0},
};

/* What producers leave unset holds whatever was on their stack; a tool that touches it is caught by these values. */
#define GARBAGE_ADDRESS ((void *)0x10)
#define GARBAGE_NUMBER 0xfefefefeu

static void report_pool(const struct pool *pool, const char *memory) {
    enum { COUNT = 20, UNREGISTERED = 5, SIZE = 512, RESERVED = 1 << 20 };
    void *handles[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        void *domain = domain_create(pool->name);
        struct range reserved = {0, memory + i * SIZE, RESERVED}, block = {0, memory + i * SIZE, SIZE};
        struct heap heap = {GARBAGE_NUMBER, GARBAGE_NUMBER, &reserved};
        void **out = pool->with_handles ? &handles[i] : GARBAGE_ADDRESS;
        struct regions regions = {GARBAGE_ADDRESS, GARBAGE_NUMBER, 1, &block, out};
        /* ATB registers its heap once, and stops if it gets no handle for it. */
        int registers = !pool->with_handles || i == 0;
        if (pool->heap_first && registers && !heap_register(domain, &heap) && pool->with_handles) fail("the heap of ATB", 0);
        regions_register(domain, &regions);
        if (!pool->heap_first) heap_register(domain, &heap);
        if (pool->with_handles && !handles[i]) fail("the handle of ATB", i);
    }
    for (int i = 0; i < UNREGISTERED; i++) {
        const void *key = pool->with_handles ? handles[i] : memory + i * SIZE;
        struct reference one = {pool->with_handles, key};
        struct references batch = {1, &one};
        regions_unregister(domain_create(pool->name), &batch);
    }
}

static void killed(void) {
    int (*init)(const char *) = function(acl_library, "aclInit");
    int (*set_device)(int32_t) = function(acl_library, "aclrtSetDevice");
    int (*allocate)(void **, size_t, int) = function(acl_library, "aclrtMallocAlign32");
    int (*release)(void *) = function(acl_library, "aclrtFree");
    int (*allocate_host)(void **, size_t) = function(acl_library, "aclrtMallocHost");
    void (*mark)(const char *, void *) = function(mstx_library, "mstxMarkA");
    uint64_t (*range_start)(const char *, void *) = function(mstx_library, "mstxRangeStartA");
    void (*range_end)(uint64_t) = function(mstx_library, "mstxRangeEnd");
    domain_create = function(mstx_library, "mstxDomainCreateA");
    heap_register = function(mstx_library, "mstxMemHeapRegister");
    regions_register = function(mstx_library, "mstxMemRegionsRegister");
    regions_unregister = function(mstx_library, "mstxMemRegionsUnregister");

    int answer;
    if ((answer = init(NULL))) fail("aclInit", answer);
    if ((answer = set_device(1))) fail("aclrtSetDevice", answer);
    mark("before, \"quoted\"", NULL);
    uint64_t step = range_start("step start", NULL);
    static void *blocks[BLOCKS + FREED];
    for (int i = 0; i < BLOCKS + FREED; i++) {
        if ((answer = allocate(&blocks[i], 4096 * (1 + i % 7), 0))) fail("aclrtMallocAlign32", answer);
    }
    for (int i = BLOCKS; i < BLOCKS + FREED; i++) {
        if ((answer = release(blocks[i]))) fail("aclrtFree", answer);
    }
    void *pinned;
    if ((answer = allocate_host(&pinned, 8192))) fail("aclrtMallocHost", answer);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) report_pool(&pools[i], blocks[0]);
    range_end(step);
    printf("{\"blocks\": %d, \"freed\": %d, \"addresses\": [", BLOCKS, FREED);
    for (int i = 0; i < BLOCKS; i++) printf("%s\"%p\"", i ? "," : "", blocks[i]);
    printf("]}\n");
    fflush(stdout);
    raise(SIGKILL);
}

/* Of docs/format.md. */
struct usage { uint64_t time, device_used, device_total, process_used; uint32_t device, process; };

/* The newest that a log in `directory` says of this process on `device`; -1 if nothing. */
static int64_t logged(const char *directory, const char *kind, uint32_t device) {
    int64_t newest = -1;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *end = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "run_", 4) || !end || strcmp(end, kind)) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *log = fopen(path, "r");
        struct usage usage;
        for (int header = fseek(log, 24, SEEK_SET); !header && fread(&usage, sizeof usage, 1, log) == 1;) {
            if (usage.device == device && usage.process == (uint32_t)getpid()) newest = usage.process_used;
        }
        fclose(log);
    }
    if (entries) closedir(entries);
    return newest;
}

static void wait_until_logged(const char *directory, const char *kind, uint32_t device, int64_t least, int64_t most) {
    enum { PAUSE_US = 5000, LONGEST_S = 60 };
    for (int pauses = 0; pauses < LONGEST_S * 1000000 / PAUSE_US; pauses++) {
        int64_t found = logged(directory, kind, device);
        if (found >= least && found <= most) return;
        usleep(PAUSE_US);
    }
    fprintf(stderr, "%s of device %u: %ld instead of %ld\n", kind, device, (long)logged(directory, kind, device), (long)least);
    exit(1);
}

static long status_bytes(const char *field) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long found = -1;
    while (fgets(line, sizeof line, status)) {
        if (!strncmp(line, field, strlen(field))) found = atol(line + strlen(field)) * 1024;
    }
    fclose(status);
    return found;
}

static void use(const char *directory) {
    const uint32_t device = 1, host = 10000, pinned_flag = 0x10000000;
    const int64_t large = 32 << 20, page = 4096;
    const char *of_devices = ".usage", *of_host = ".host_usage";
    const struct msmemscope_api *(*get)(void) = function(RTLD_DEFAULT, "msmemscope_api");
    const struct msmemscope_api *recorder = get();
    if (recorder->size < sizeof *recorder) fail("the size of the table", recorder->size);
    int (*init)(const char *) = function(acl_library, "aclInit");
    int (*set_device)(int32_t) = function(acl_library, "aclrtSetDevice");
    int (*allocate)(void **, size_t, int) = function(acl_library, "aclrtMallocAlign32");
    int (*release)(void *) = function(acl_library, "aclrtFree");
    int (*allocate_host)(void **, size_t) = function(acl_library, "aclrtMallocHost");
    int (*release_host)(void *) = function(acl_library, "aclrtFreeHost");
    int (*register_host)(void *, uint64_t, uint32_t) = function(acl_library, "aclrtHostRegisterV2");
    int (*unregister_host)(void *) = function(acl_library, "aclrtHostUnregister");

    int answer;
    void *block, *probes[2], *pinned, *refused;
    if ((answer = init(NULL))) fail("aclInit", answer);
    if ((answer = set_device(device))) fail("aclrtSetDevice", answer);
    if ((answer = allocate(&block, large, 0))) fail("aclrtMallocAlign32", answer);
    wait_until_logged(directory, of_devices, device, large, large);
    if ((answer = allocate(&probes[0], page, 0))) fail("aclrtMallocAlign32", answer);
    recorder->start();
    recorder->snapshot("half way", -1);
    if ((answer = release(block))) fail("aclrtFree", answer);
    wait_until_logged(directory, of_devices, device, page, page);
    if ((answer = allocate(&probes[1], page, 0))) fail("aclrtMallocAlign32", answer);

    size_t touched = 64 << 20;
    char *memory = malloc(touched);
    memset(memory, 1, touched);
    wait_until_logged(directory, of_host, host, touched, INT64_MAX);
    if ((answer = allocate_host(&pinned, 2 * page))) fail("aclrtMallocHost", answer);
    if ((answer = register_host(memory, page, pinned_flag))) fail("aclrtHostRegisterV2", answer);
    if ((answer = register_host(memory + page, page, 0))) fail("aclrtHostRegisterV2", answer);
    if ((answer = unregister_host(memory + page))) fail("aclrtHostUnregister", answer);
    if ((answer = unregister_host(memory))) fail("aclrtHostUnregister", answer);
    if ((answer = release_host(pinned))) fail("aclrtFreeHost", answer);
    if (!allocate(&refused, (size_t)1 << 40, 0)) fail("refusing a terabyte", 0);
    printf("{\"probes\": [\"%p\", \"%p\"], \"used\": [%ld, %ld], \"pinned\": \"%p\", \"registered\": \"%p\", "
           "\"touched\": %zu, \"peak\": %ld}\n", probes[0], probes[1], (long)large, (long)page, pinned, (void *)memory, touched,
           status_bytes("VmHWM:"));
}

static void absent(void) {
    const char *names[] = {"halMemAlloc", "halMemFree", "halMemCreate", "halMemRelease", "aclInit", "aclFinalize",
                           "aclrtSetDevice", "aclrtHostRegisterV2", "aclrtHostUnregister",
                           "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE"};
    printf("{");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int (*call)(void *, uint64_t, void *, uint64_t) = dlsym(RTLD_DEFAULT, names[i]);
        uint64_t room[8] = {0};
        /* Longer than every function's own list; what a C function does not know of it does not read. */
        int answer = call ? call(room, 4096, room, 0) : -1;
        printf("%s\"%s\": {\"answer\": %d, \"written\": %s}", i ? ", " : "", names[i], answer, room[0] ? "true" : "false");
    }
    printf("}\n");
}

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "absent")) return absent(), 0;
    if (count == 3 && !strcmp(arguments[1], "usage")) return use(arguments[2]), 0;
    if (count != 3 || strcmp(arguments[1], "killed")) {
        return fprintf(stderr, "killed linked|local, usage DIRECTORY, or absent\n"), 2;
    }
    if (!strcmp(arguments[2], "local")) {
        acl_library = open_locally("libascendcl.so");
        mstx_library = open_locally("libms_tools_ext.so");
    }
    killed();
}
