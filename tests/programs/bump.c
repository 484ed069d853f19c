/* An allocator that may be left at any instruction: it only ever counts upwards. Preloaded behind the library. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uintptr_t next;

void *malloc(size_t size) {
    if (!next) {
        void *arena = mmap(0, (size_t)1 << 36, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uintptr_t none = 0;
        atomic_compare_exchange_strong(&next, &none, (uintptr_t)arena);
    }
    /* 16 bytes before a block hold its size. */
    uintptr_t block = atomic_fetch_add(&next, (size + 16 + 15) & ~(size_t)15);
    *(size_t *)block = size;
    return (void *)(block + 16);
}

void free(void *block) {
    (void)block;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (old) {
        size_t kept = ((size_t *)old)[-2];
        memcpy(block, old, kept < size ? kept : size);
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
