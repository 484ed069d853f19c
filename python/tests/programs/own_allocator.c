/* A program that defines the allocator itself, and runs Python from the library of its first argument. Its blocks begin
   behind a header: freed by anybody else, they end the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t);
void __libc_free(void *);

enum { HEADER = 64 };

void *malloc(size_t size) {
    char *block = __libc_malloc(size + HEADER);
    if (!block)
        return 0;
    *(size_t *)block = size;
    return block + HEADER;
}

void free(void *block) {
    if (block)
        __libc_free((char *)block - HEADER);
}

void *calloc(size_t count, size_t size) {
    size_t all;
    void *block = __builtin_mul_overflow(count, size, &all) ? 0 : malloc(all);
    return block ? memset(block, 0, all) : 0;
}

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (!old || !block)
        return block;
    size_t before = *(size_t *)((char *)old - HEADER);
    memcpy(block, old, before < size ? before : size);
    free(old);
    return block;
}

int posix_memalign(void **out, size_t align, size_t size) {
    if (align > 16)
        return EINVAL;
    *out = malloc(size);
    return *out ? 0 : ENOMEM;
}

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_GLOBAL) : 0;
    int (*python)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : 0;
    if (!python)
        return 77;
    words[1] = words[0];
    return python(count - 1, words + 1);
}
