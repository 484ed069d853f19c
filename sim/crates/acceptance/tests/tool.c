/* A tool as a profiler would preload it: it stands in front of driver and runtime functions, fills mstx slots, and prints
 * what comes by. The real functions are taken from their libraries by name, because the default scope finds ourselves. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *real(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *function = handle ? dlsym(handle, name) : NULL;
    if (!function) printf("missing=%s\n", name), exit(1);
    return function;
}

/* A driver may offer the function a second time under another name. */
static void *driver(const char *inner, const char *name) {
    void *handle = dlopen("libascend_hal.so", RTLD_NOW | RTLD_NOLOAD);
    void *function = handle ? dlsym(handle, inner) : NULL;
    printf("inner=%s\n", function ? "there" : "absent");
    return function ? function : real("libascend_hal.so", name);
}

int halMemAlloc(void **address, unsigned long long size, unsigned long long flag) {
    int (*call)(void **, unsigned long long, unsigned long long) = driver("halMemAllocInner", "halMemAlloc");
    int result = call(address, size, flag);
    printf("seen=halMemAlloc %llu %#llx\n", size, flag);
    return result;
}

int halMemFree(void *address) {
    int (*call)(void *) = driver("halMemFreeInner", "halMemFree");
    printf("seen=halMemFree\n");
    return call(address);
}

int halMemCreate(void **handle, size_t size, const uint32_t *properties, uint64_t flag) {
    int (*call)(void **, size_t, const uint32_t *, uint64_t) = driver("halMemCreateInner", "halMemCreate");
    printf("seen=halMemCreate %zu side %u device %u module %u page %u\n", size, properties[0], properties[1], properties[2], properties[3]);
    return call(handle, size, properties, flag);
}

int halMemRelease(void *handle) {
    int (*call)(void *) = driver("halMemReleaseInner", "halMemRelease");
    printf("seen=halMemRelease\n");
    return call(handle);
}

int rtKernelLaunchWithHandleV2(void *a, uint64_t b, uint32_t c, void *d, void *e, void *f, const void *g) {
    int (*call)(void *, uint64_t, uint32_t, void *, void *, void *, const void *) = real("libruntime.so", "rtKernelLaunchWithHandleV2");
    printf("seen=rtKernelLaunchWithHandleV2\n");
    return call(a, b, c, d, e, f, g);
}

int rtLaunchKernelByFuncHandleV2(void *a, uint32_t b, void *c, void *d, const void *e) {
    int (*call)(void *, uint32_t, void *, void *, const void *) = real("libruntime.so", "rtLaunchKernelByFuncHandleV2");
    printf("seen=rtLaunchKernelByFuncHandleV2\n");
    return call(a, b, c, d, e);
}

int aclrtLaunchKernelWithHostArgsImpl(void *a, uint32_t b, void *c, void *d, void *e, size_t f, void *g, size_t h) {
    int (*call)(void *, uint32_t, void *, void *, void *, size_t, void *, size_t) =
        real("libacl_rt_impl.so", "aclrtLaunchKernelWithHostArgsImpl");
    printf("seen=aclrtLaunchKernelWithHostArgsImpl\n");
    return call(a, b, c, d, e, f, g, h);
}

int aclFinalize(void) {
    int (*call)(void) = real("libascendcl.so", "aclFinalize");
    printf("seen=aclFinalize\n");
    return call();
}

static void mark(const char *message, void *stream) { (void)stream, printf("mark=%s\n", message); }
static uint64_t range_start(const char *message, void *stream) { return (void)stream, printf("range_start=%s\n", message), 42; }
static void range_end(uint64_t id) { printf("range_end=%lu\n", (unsigned long)id); }
static void *domain_create(const char *name) { return printf("domain_create=%s\n", name), (void *)name; }

struct range { uint32_t device; void *address; uint64_t size; };

static void *heap_register(void *domain, const void *heap) {
    const struct range *span = *(struct range *const *)((const char *)heap + 8);
    printf("heap=%s %u %p %lu\n", (char *)domain, span->device, span->address, (unsigned long)span->size);
    return NULL;
}

static void regions_register(void *domain, const void *batch) {
    const struct range *span = *(struct range *const *)((const char *)batch + 24);
    printf("region=%s %u %p %lu\n", (char *)domain, span->device, span->address, (unsigned long)span->size);
}

static void regions_unregister(void *domain, const void *batch) {
    const char *reference = *(char *const *)((const char *)batch + 8);
    printf("gone=%s %p\n", (char *)domain, *(void *const *)(reference + 8));
}

int InitInjectionMstx(int (*get_table)(int, void ****, unsigned *)) {
    void ***table;
    unsigned size;
    for (int module = 1; module <= 3; module++) {
        if (get_table(module, &table, &size)) return 1;
        printf("slots=%u\n", size);
        if (module == 1) *table[1] = mark, *table[2] = range_start, *table[3] = range_end;
        if (module == 2) *table[1] = domain_create;
        if (module == 3) *table[1] = heap_register, *table[3] = regions_register, *table[4] = regions_unregister;
    }
    printf("unknown_module=%d\n", get_table(4, &table, &size));
    return getenv("TOOL_REFUSES") != NULL;
}
