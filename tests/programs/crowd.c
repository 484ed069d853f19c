/* Threads that come and go: crowd many | tiny | keys. `many` writes "<number> <thread id>" lines to the file `threads`. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ALL = 200, AT_ONCE = 4, BLOCKS = 500 };

static int ids[ALL];
static pthread_key_t key;

static void *allocate(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    ids[number] = (int)syscall(SYS_gettid);
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(10000 + number);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return 0;
}

static int many(void) {
    pthread_t threads[AT_ONCE];
    for (int first = 0; first < ALL; first += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            if (pthread_create(&threads[i], 0, allocate, (void *)(uintptr_t)(first + i)))
                return 1;
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], 0);
    }
    FILE *file = fopen("threads", "w");
    for (int i = 0; i < ALL; i++)
        fprintf(file, "%d %d\n", i, ids[i]);
    return fclose(file) ? 2 : 0;
}

static __attribute__((noinline)) void *deepest(size_t size) {
    return malloc(size);
}

static __attribute__((noinline)) void *descend(int depth, size_t size) {
    void *block = depth ? descend(depth - 1, size) : deepest(size);
    return block;
}

static void *on_little_stack(void *unused) {
    for (int i = 0; i < 50; i++)
        free(descend(i % 10, 6006));
    return unused;
}

static int tiny(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN))
        return 3;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, on_little_stack, 0))
            return 4;
        pthread_join(thread, 0);
    }
    return 0;
}

static void at_thread_end(void *block) {
    free(block);
    free(malloc(7102));
}

static void *with_key(void *unused) {
    pthread_setspecific(key, malloc(7101));
    return unused;
}

static int keys(void) {
    pthread_key_create(&key, at_thread_end);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, with_key, 0))
            return 5;
        pthread_join(thread, 0);
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "many"))
        return many();
    if (!strcmp(mode, "tiny"))
        return tiny();
    if (!strcmp(mode, "keys"))
        return keys();
    return 9;
}
