/* burst <threads> <rounds>: each round is a malloc, a realloc and a free. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rounds;

static void *work(void *unused) {
    for (int i = 0; i < rounds; i++) {
        void *block = malloc(100 + i % 50);
        block = realloc(block, 400);
        free(block);
    }
    return unused;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 9;
    int threads = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    pthread_t *handles = calloc(threads, sizeof *handles);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&handles[i], 0, work, 0))
            return 2;
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], 0);
    free(handles);
    printf("%d threads, %d rounds\n", threads, rounds);
    return 0;
}
