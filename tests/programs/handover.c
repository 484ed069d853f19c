/* handover <rounds>: threads that move blocks with realloc while others are given the addresses they leave. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, PLACES = 64 };

static _Atomic(void *) places[PLACES];
static int rounds;

static void *work(void *argument) {
    uint64_t state = (uintptr_t)argument;
    for (int i = 0; i < rounds; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned choice = (unsigned)(state >> 40);
        void *mine = atomic_exchange(&places[choice % PLACES], 0);
        size_t size = 1100 + choice % 64 * 16;
        mine = mine ? realloc(mine, size) : malloc(size);
        free(atomic_exchange(&places[(choice >> 8) % PLACES], mine));
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 2)
        return 9;
    rounds = atoi(arguments[1]);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, work, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < PLACES; i++)
        free(places[i]);
    return 0;
}
