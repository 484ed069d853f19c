/* Counts, independently of the recorder, the blocks that begin and end in all processes that have it preloaded. Behind the
   recording library it sees exactly the calls that are passed on, and passes them to whatever allocator comes next. The
   counts of all processes are in the file $COUNTER_FILE, mapped, so that they are always current. Beside them stands the most
   memory that one of the processes could write to, as the kernel has it: seen from here it does not depend on how long a
   process lives. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BEGUN, ENDED, BYTES, COUNTS, WRITABLE_PAGES = COUNTS, FIELDS };

/* The kernel is asked by each so many blocks, and by each large one. */
enum { BLOCKS_BETWEEN = 64, LARGE = 64 << 10 };

static _Atomic uint64_t early[FIELDS];
static _Atomic(_Atomic uint64_t *) counts = early;

/* The command under test is not the program under test. */
static __attribute__((constructor)) void map_counts(void) {
    const char *path = getenv("COUNTER_FILE");
    if (!path || strcmp(program_invocation_short_name, "msmemscope") == 0)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    _Atomic uint64_t *mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    close(file);
    for (int i = 0; i < COUNTS; i++)
        atomic_fetch_add(&mapped[i], early[i]);
    counts = mapped;
}

/* The allocator that comes next, found by the first call of all. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    int (*posix_memalign)(void **, size_t, size_t);
} next;
/* Volatile: the compiler is told that the search does not come back here. */
static volatile enum { NEW, SEARCHING, FOUND } state;

/* For what the search itself allocates. */
static _Alignas(16) char arena[8192];
static size_t arena_used;

static int is_in_arena(void *block) {
    return (char *)block >= arena && (char *)block < arena + sizeof arena;
}

static void *from_arena(size_t size) {
    size_t at = arena_used;
    arena_used += (size + 15) & ~(size_t)15;
    return arena_used <= sizeof arena ? arena + at : 0;
}

static int is_found(void) {
    if (state == NEW) {
        state = SEARCHING;
        next.malloc = dlsym(RTLD_NEXT, "malloc");
        next.calloc = dlsym(RTLD_NEXT, "calloc");
        next.realloc = dlsym(RTLD_NEXT, "realloc");
        next.free = dlsym(RTLD_NEXT, "free");
        next.memalign = dlsym(RTLD_NEXT, "memalign");
        next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
        next.valloc = dlsym(RTLD_NEXT, "valloc");
        next.pvalloc = dlsym(RTLD_NEXT, "pvalloc");
        next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
        state = FOUND;
    }
    return state == FOUND;
}

/* The sixth number of statm: data and stack. Only system calls: this runs within malloc. */
static __attribute__((destructor)) void look_at_writable(void) {
    int before = errno;
    char text[256] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) < 0)
            text[0] = 0;
        close(file);
    }
    char *at = text;
    for (int i = 0; i < 5 && at; i++)
        at = (at = strchr(at, ' ')) ? at + 1 : 0;
    uint64_t pages = 0;
    for (; at && *at >= '0' && *at <= '9'; at++)
        pages = pages * 10 + (*at - '0');
    uint64_t most = counts[WRITABLE_PAGES];
    while (pages > most && !atomic_compare_exchange_weak(&counts[WRITABLE_PAGES], &most, pages))
        ;
    errno = before;
}

static void *begun(void *block, size_t size) {
    if (block) {
        atomic_fetch_add(&counts[BYTES], size);
        if (atomic_fetch_add(&counts[BEGUN], 1) % BLOCKS_BETWEEN == 0 || size >= LARGE)
            look_at_writable();
    }
    return block;
}

static void ended(void) {
    atomic_fetch_add(&counts[ENDED], 1);
}

void *malloc(size_t size) {
    return is_found() ? begun(next.malloc(size), size) : from_arena(size);
}

void *calloc(size_t count, size_t size) {
    return is_found() ? begun(next.calloc(count, size), count * size) : from_arena(count * size);
}

void free(void *block) {
    if (!block || is_in_arena(block) || !is_found())
        return;
    ended();
    next.free(block);
}

void *realloc(void *old, size_t size) {
    if (!is_found())
        return old ? 0 : from_arena(size);
    if (is_in_arena(old)) {
        void *block = malloc(size);
        size_t rest = arena + sizeof arena - (char *)old;
        return block ? memcpy(block, old, size < rest ? size : rest) : 0;
    }
    void *block = next.realloc(old, size);
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
    return is_found() ? begun(next.memalign(align, size), size) : 0;
}

void *aligned_alloc(size_t align, size_t size) {
    return is_found() ? begun(next.aligned_alloc(align, size), size) : 0;
}

void *valloc(size_t size) {
    return is_found() ? begun(next.valloc(size), size) : 0;
}

void *pvalloc(size_t size) {
    return is_found() ? begun(next.pvalloc(size), size) : 0;
}

int posix_memalign(void **out, size_t align, size_t size) {
    if (!is_found())
        return ENOMEM;
    int answer = next.posix_memalign(out, align, size);
    if (answer == 0)
        begun(*out, size);
    return answer;
}
