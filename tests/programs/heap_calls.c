/* Every function of the malloc family, with every kind of answer, between two marks. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char buffer[8192];

static void report(const char *what, int right) {
    printf("%s: %s\n", what, right ? "as it should be" : "WRONG");
}

int main(void) {
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    /* The compiler must not know how large they are. */
    volatile size_t huge = SIZE_MAX / 2, ten = 10, three = 3;
    void *begin = malloc(900001);

    void *nothing = malloc(0);
    report("malloc(0)", nothing != 0);
    free(nothing);
    void *block = malloc(100);
    memset(block, 7, 100);
    block = realloc(block, 200);
    report("content after realloc", ((char *)block)[99] == 7);
    report("realloc to 0", realloc(block, 0) == 0);
    block = realloc(0, 300);
    errno = 0;
    report("realloc to too much", realloc(block, huge + 5) == 0 && errno == ENOMEM);
    free(block);
    block = calloc(10, 40);
    report("calloc zeroes", ((char *)block)[399] == 0);
    free(block);
    errno = 0;
    report("calloc overflow", calloc(huge, ten) == 0 && errno == ENOMEM);
    errno = 0;
    report("malloc of too much", malloc(huge + 1) == 0 && errno == ENOMEM);
    void *blocks[6] = {0};
    report("posix_memalign", posix_memalign(&blocks[0], 64, 500) == 0 && (uintptr_t)blocks[0] % 64 == 0);
    void *untouched = &blocks;
    errno = 0;
    report("posix_memalign by 3", posix_memalign(&untouched, three, 500) == EINVAL && untouched == &blocks && !errno);
    blocks[1] = aligned_alloc(64, 640);
    report("aligned_alloc", (uintptr_t)blocks[1] % 64 == 0);
    blocks[2] = memalign(128, 700);
    report("memalign", (uintptr_t)blocks[2] % 128 == 0);
    blocks[3] = valloc(800);
    report("valloc", (uintptr_t)blocks[3] % 4096 == 0);
    blocks[4] = pvalloc(900);
    report("pvalloc", (uintptr_t)blocks[4] % 4096 == 0);
    blocks[5] = reallocarray(0, 10, 100);
    blocks[5] = reallocarray(blocks[5], 20, 100);
    errno = 0;
    report("reallocarray overflow", reallocarray(blocks[5], huge, ten) == 0 && errno == ENOMEM);
    for (int i = 0; i < 6; i++)
        free(blocks[i]);
    free(0);
    block = malloc(1000);
    printf("usable: %zu\n", malloc_usable_size(block));
    free(block);
    void *end = malloc(900002);
    free(begin);
    free(end);

    /* Enough to fill windows: the calls that append one must not touch errno either. */
    int kept = 1;
    for (int i = 0; i < 200000; i++) {
        errno = 1234;
        block = malloc(24);
        kept &= errno == 1234;
        block = realloc(block, 48);
        kept &= errno == 1234;
        free(block);
        kept &= errno == 1234;
    }
    report("errno", kept);
    return 0;
}
