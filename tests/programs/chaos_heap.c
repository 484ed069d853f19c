/* An allocator that may be left at any instruction, and counts what is asked of it in a file of each process. Preloaded
   behind the library: it sees the calls that are passed on. */
#include "chaos.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct chaos_counts early;
static _Atomic(struct chaos_counts *) counts = &early;
static _Atomic uintptr_t next;

struct chaos_counts *chaos_counts(void) {
    return counts;
}

static char *digits(char *end, unsigned number) {
    *--end = 0;
    do
        *--end = '0' + number % 10;
    while (number /= 10);
    return end;
}

/* By system calls: a signal handler comes here, and nothing of it may be recorded. */
void chaos_begin(struct chaos_counts *first) {
    const char *directory = getenv("CHAOS_COUNTS");
    char path[512], text[16], *name = digits(text + sizeof text, syscall(SYS_getpid));
    if (!directory || strlen(directory) > 400)
        abort();
    strcat(strcat(strcpy(path, directory), "/"), name);
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || syscall(SYS_ftruncate, file, 4096))
        abort();
    /* In a child in place of the parent's: code that a fork in a signal handler interrupted may hold the address. */
    void *place = counts == &early ? 0 : counts;
    long mapped = syscall(SYS_mmap, place, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (place ? MAP_FIXED : 0), file, 0);
    if (mapped < 0 && mapped > -4096)
        abort();
    syscall(SYS_close, file);
    if (first)
        memcpy((void *)mapped, first, sizeof *first);
    counts = (struct chaos_counts *)mapped;
}

static __attribute__((constructor)) void begin(void) {
    chaos_begin(&early);
}

void *malloc(size_t size) {
    if (!next) {
        void *arena = mmap(0, (size_t)1 << 36, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&next, &none, (uintptr_t)arena))
            munmap(arena, (size_t)1 << 36);
    }
    /* 16 bytes before a block hold its size. */
    uintptr_t block = atomic_fetch_add(&next, (size + 16 + 15) & ~(size_t)15);
    *(size_t *)block = size;
    atomic_fetch_add(&counts->events[ALLOCATED], 1);
    return (void *)(block + 16);
}

void free(void *block) {
    if (block)
        atomic_fetch_add(&counts->events[FREED], 1);
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (old) {
        size_t kept = ((size_t *)old)[-2];
        memcpy(block, old, kept < size ? kept : size);
        atomic_fetch_add(&counts->events[FREED], 1);
    }
    return block;
}

void *memalign(size_t align, size_t size) {
    uintptr_t block = (uintptr_t)malloc(size + align);
    return (void *)((block + align - 1) & ~(align - 1));
}

void *aligned_alloc(size_t align, size_t size) {
    return memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    *out = memalign(align, size);
    return 0;
}
