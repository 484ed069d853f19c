/* Counts, independently of the recorder, the blocks that begin and end. Preloaded behind the library it sees exactly the
   calls that are passed on. The counts are kept in the file $COUNTER_FILE, mapped, so that they are always current. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *__libc_valloc(size_t);
void *__libc_pvalloc(size_t);
void __libc_free(void *);

enum { BEGUN, ENDED, BYTES, COUNTS };

static _Atomic uint64_t early[COUNTS];
static _Atomic(_Atomic uint64_t *) counts = early;

static __attribute__((constructor)) void map_counts(void) {
    const char *path = getenv("COUNTER_FILE");
    int file = path ? open(path, O_RDWR) : -1;
    _Atomic uint64_t *mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    close(file);
    for (int i = 0; i < COUNTS; i++)
        mapped[i] = early[i];
    counts = mapped;
}

static void *begun(void *block, size_t size) {
    if (block) {
        atomic_fetch_add(&counts[BEGUN], 1);
        atomic_fetch_add(&counts[BYTES], size);
    }
    return block;
}

static void ended(void) {
    atomic_fetch_add(&counts[ENDED], 1);
}

void *malloc(size_t size) {
    return begun(__libc_malloc(size), size);
}

void *calloc(size_t count, size_t size) {
    return begun(__libc_calloc(count, size), count * size);
}

void free(void *block) {
    if (block)
        ended();
    __libc_free(block);
}

void *realloc(void *old, size_t size) {
    void *block = __libc_realloc(old, size);
    if (old && (block || !size))
        ended();
    return begun(block, size);
}

void *reallocarray(void *old, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return 0;
    }
    return realloc(old, all);
}

void *memalign(size_t align, size_t size) {
    return begun(__libc_memalign(align, size), size);
}

void *aligned_alloc(size_t align, size_t size) {
    return begun(__libc_memalign(align, size), size);
}

void *valloc(size_t size) {
    return begun(__libc_valloc(size), size);
}

void *pvalloc(size_t size) {
    return begun(__libc_pvalloc(size), size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    if (align % sizeof(void *) || !align || align & (align - 1))
        return EINVAL;
    void *block = memalign(align, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}
