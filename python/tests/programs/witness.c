/* An allocator that knows of each call whether it came through the recorder's wrapper. Preloaded, so that it is what the
   wrappers call, and what whoever misses them calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

enum { SHOWN = 8 };
static _Atomic int is_watching;
static _Atomic long allocations, missed_allocations, frees, missed_frees;
static _Atomic uintptr_t shown[SHOWN];
static uintptr_t wrapper_start, wrapper_end;

static int is_wrapper(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "libmsmemscope_host.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            wrapper_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            wrapper_end = wrapper_start + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

/* 0 if the wrapper is not in the process. */
int witness_begin(void) {
    int found = dl_iterate_phdr(is_wrapper, 0);
    is_watching = found;
    return found;
}

/* allocations, those that were missed, frees, those that were missed */
void witness_end(long counts[4]) {
    is_watching = 0;
    counts[0] = allocations, counts[1] = missed_allocations, counts[2] = frees, counts[3] = missed_frees;
    for (int i = 0; i < SHOWN && shown[i]; i++) {
        Dl_info info;
        if (dladdr((void *)shown[i], &info))
            fprintf(stderr, "missed: %s + %#lx\n", info.dli_fname, (long)(shown[i] - (uintptr_t)info.dli_fbase));
    }
}

static void witness(uintptr_t caller, _Atomic long *all, _Atomic long *missed) {
    if (!is_watching)
        return;
    ++*all;
    if (caller >= wrapper_start && caller < wrapper_end)
        return;
    long number = ++*missed;
    if (number <= SHOWN)
        shown[number - 1] = caller;
}

#define ALLOCATES witness((uintptr_t)__builtin_return_address(0), &allocations, &missed_allocations)

void *malloc(size_t size) {
    ALLOCATES;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    ALLOCATES;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    ALLOCATES;
    return __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size) {
    ALLOCATES;
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return 0;
    }
    return __libc_realloc(old, all);
}

void *memalign(size_t align, size_t size) {
    ALLOCATES;
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) {
    ALLOCATES;
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    ALLOCATES;
    void *block = __libc_memalign(align, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

void free(void *block) {
    if (block)
        witness((uintptr_t)__builtin_return_address(0), &frees, &missed_frees);
    __libc_free(block);
}
