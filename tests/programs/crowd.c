/* Threads that come and go: crowd many | tiny | keys | together. `many` writes "<number> <thread id>" lines to the file `threads`. */
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

enum { TOGETHER = 20000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_have_come = PTHREAD_COND_INITIALIZER;
static int have_come;

/// Allocates, waits until all have, and frees.
static void *with_all_others(void *unused) {
    void *block = malloc(7103);
    pthread_mutex_lock(&lock);
    if (++have_come == TOGETHER)
        pthread_cond_broadcast(&all_have_come);
    while (have_come < TOGETHER)
        pthread_cond_wait(&all_have_come, &lock);
    pthread_mutex_unlock(&lock);
    free(block);
    return unused;
}

static int together(void) {
    pthread_t *threads = calloc(TOGETHER, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 2 * PTHREAD_STACK_MIN))
        return 6;
    for (int i = 0; i < TOGETHER; i++)
        if (pthread_create(&threads[i], &attributes, with_all_others, 0)) {
            fprintf(stderr, "thread %d cannot be created\n", i);
            return 7;
        }
    for (int i = 0; i < TOGETHER; i++)
        pthread_join(threads[i], 0);
    free(threads);
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
    if (!strcmp(mode, "together"))
        return together();
    return 9;
}
