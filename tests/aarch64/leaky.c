/* leaky [kill]: allocates on four threads, loses some, and says how many allocations it made. With "kill" it ends by
 * SIGKILL, right after the last one. It does not fork: the emulator ignores the advice to give a child zeroed memory. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, LOST = 12345 };
#define NOINLINE __attribute__((noinline))
/* Keeps a call from becoming a jump, which would leave no frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static NOINLINE char *innermost(size_t size) {
    char *block = malloc(size);
    memset(block, 1, size);
    return block;
}

static NOINLINE char *between(size_t size) {
    char *block = innermost(size);
    KEEP_FRAME();
    return block;
}

static NOINLINE void *outermost(void *argument) {
    for (int round = 0; round < ROUNDS; round++) free(between(16 + round % 3000));
    char *lost = between(LOST);
    KEEP_FRAME();
    return argument ? lost : NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, outermost, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    void *grown = calloc(10, 20);
    grown = realloc(grown, 50000);
    void *volatile aligned = aligned_alloc(64, 64000);
    free(aligned);
    char text[64];
    int length = snprintf(text, sizeof text, "made %d\n", THREADS * (ROUNDS + 1));
    if (write(1, text, length) != length) return 1;
    if (argc > 1 && strcmp(argv[1], "kill") == 0) kill(getpid(), SIGKILL);
    return grown == NULL;
}
