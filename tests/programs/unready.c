/* In front of the C library's dl_iterate_phdr, as ThreadSanitizer is: what it passes on to is known only later, and it
   allocates before. Linked with -rdynamic. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*Callback)(struct dl_phdr_info *, size_t, void *);
static int (*next)(Callback, void *);

int dl_iterate_phdr(Callback callback, void *data) { return next(callback, data); }

static void allocate(void) {
    void *volatile block = malloc(7000);
    free(block);
}

/* Before any constructor. */
static void begin(void) {
    allocate();
    next = (int (*)(Callback, void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = begin;

static int count(struct dl_phdr_info *info, size_t size, void *objects) {
    (void)info, (void)size;
    ++*(int *)objects;
    return 0;
}

int main(void) {
    int objects = 0;
    allocate();
    dl_iterate_phdr(count, &objects);
    printf("%s\n", objects > 1 ? "objects" : "none");
    return 0;
}
