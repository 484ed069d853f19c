/* Threads that allocate, and forked children with threads of their own: 16 blocks of 50000 bytes and up, and one of 77777 in each of
   5 children. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 16, CHILDREN = 5, ROUNDS = 20000 };

static void *work(void *size) {
    for (int round = 0; round < ROUNDS; round++) {
        void *volatile block = malloc(100 + round % 1000);
        free(block);
    }
    return malloc((size_t)size);
}

int main(void) {
    pthread_t threads[THREADS];
    for (long each = 0; each < THREADS; each++) {
        pthread_create(&threads[each], NULL, work, (void *)(50000 + each));
    }
    for (int each = 0; each < THREADS; each++) {
        pthread_join(threads[each], NULL);
    }
    for (int each = 0; each < CHILDREN; each++) {
        int status = -1;
        if (fork() == 0) {
            pthread_create(&threads[0], NULL, work, (void *)77777);
            pthread_join(threads[0], NULL);
            _exit(0);
        }
        wait(&status);
        if (status != 0) {
            return 1;
        }
    }
    return 0;
}
