/* Counts the calls of c10::alloc_cpu, by which torch takes memory for tensors on the host. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_long calls;

long alloc_cpu_calls(void) { return calls; }

void *_ZN3c109alloc_cpuEm(size_t size)
{
    static _Atomic(void *) known;
    void *original = known;
    if (original == NULL) {
        /* Python loads torch out of sight of dlsym(RTLD_NEXT). */
        void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
        original = dlsym(library, "_ZN3c109alloc_cpuEm");
        known = original;
    }
    calls++;
    return ((void *(*)(size_t))original)(size);
}
