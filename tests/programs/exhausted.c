/* Runs out of memory. usage: exhausted <how>
     limit   fills its address space by one call site, is refused by each function that can refuse, and goes on
     abort   the same for malloc alone, and dies at once
     kill    the same, by SIGKILL of its own
     hoard   takes and touches memory until somebody stops it */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCK = 4 << 20, MOST = 256 };

static char *held[MOST];

/* What is asked for differs, so that each is one refusal of its own. */
static size_t huge(int number) {
    return ((size_t)1 << 40) + ((size_t)number << 20);
}

__attribute__((noinline)) static int fill(void) {
    int number = 0;
    while (number < MOST && (held[number] = malloc(BLOCK)))
        number++;
    return number;
}

__attribute__((noinline)) static void hoard(void) {
    for (;;) {
        char *block = malloc(1 << 20);
        if (!block)
            abort();
        memset(block, 1, 1 << 20);
    }
}

static void check(const char *what, int refused, int error) {
    if (!refused || error != ENOMEM) {
        printf("%s: refused %d, errno %d\n", what, refused, error);
        exit(3);
    }
    errno = 0;
}

/* In this order: the call, and then what it left in errno. */
#define REFUSED(what, is_refused) \
    do { \
        int refused = (is_refused); \
        check(what, refused, errno); \
    } while (0)

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "hoard"))
        hoard();
    struct rlimit limit = {384 << 20, 384 << 20};
    if (setrlimit(RLIMIT_AS, &limit))
        return 4;
    int blocks = fill();
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    REFUSED("malloc", blocks < MOST);
    REFUSED("malloc", !malloc(huge(0)));
    REFUSED("calloc", !calloc(huge(1), 1));
    volatile size_t many = SIZE_MAX / 2;
    REFUSED("calloc", !calloc(many, 3));
    REFUSED("realloc", !realloc(held[0], huge(2)));
    REFUSED("reallocarray", !reallocarray(NULL, huge(3), 1));
    void *out = NULL;
    check("posix_memalign", 1, posix_memalign(&out, 64, huge(4)));
    REFUSED("aligned_alloc", !aligned_alloc(64, huge(5)));
    REFUSED("memalign", !memalign(64, huge(6)));
    REFUSED("valloc", !valloc(huge(7)));
    REFUSED("pvalloc", !pvalloc(huge(8)));
    REFUSED("mmap", mmap(NULL, huge(9), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REFUSED("mremap", mremap(page, 4096, huge(10), MREMAP_MAYMOVE) == MAP_FAILED);
    /* Failures that are no want of memory. */
    if (posix_memalign(&out, 3, 64) != EINVAL)
        return 5;
    if (mmap((void *)1, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        return 6;
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Its neighbour is in the way. */
    REFUSED("mremap in place", mremap(pages, 4096, 8192, 0) == MAP_FAILED);
    void *volatile nothing = realloc(malloc(32), 0);
    (void)nothing;
    for (int number = 0; number < blocks; number++)
        free(held[number]);
    /* What was refused at first is to be had now. */
    if (!(held[0] = malloc(BLOCK)))
        return 7;
    printf("%d blocks\n", blocks);
    return 0;
}
