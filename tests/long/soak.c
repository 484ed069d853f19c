/* soak <seconds>: works at the pace of a server for so long: threads that stay and keep blocks for a while, threads that come and go,
   and processes that do; nothing of it grows. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STAYING = 4, KEPT = 1000, BURST = 200, GUEST_BLOCKS = 500 };

static time_t end;

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static void pause_milliseconds(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, 0);
}

static void exchange(void **kept, unsigned *state) {
    *state = *state * 1103515245 + 12345;
    void **place = &kept[(*state >> 16) % KEPT];
    size_t size = 16 + (*state >> 8) % 4000;
    if (*state & 0x10000000) {
        *place = realloc(*place, size);
    } else {
        free(*place);
        *place = malloc(size);
    }
}

static void *stay(void *number) {
    void *kept[KEPT] = {0};
    unsigned state = (unsigned)(size_t)number;
    while (now() < end) {
        for (int i = 0; i < BURST; i++)
            exchange(kept, &state);
        pause_milliseconds(40);
    }
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    return 0;
}

static void *visit(void *unused) {
    for (int i = 0; i < GUEST_BLOCKS; i++)
        free(malloc(100 + i));
    void *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || munmap(pages, 1 << 20))
        abort();
    return unused;
}

int main(int count, char **arguments) {
    if (count != 2)
        return 9;
    end = now() + atol(arguments[1]);
    pthread_t staying[STAYING], guest;
    for (size_t i = 0; i < STAYING; i++)
        if (pthread_create(&staying[i], 0, stay, (void *)(i + 1)))
            return 2;
    long guests = 0, children = 0;
    while (now() < end) {
        if (pthread_create(&guest, 0, visit, 0) || pthread_join(guest, 0))
            return 3;
        /* Each leaves a directory in the recording, so they are few. */
        if (++guests % 1000 == 1) {
            pid_t child = fork();
            if (child == 0) {
                visit(0);
                _exit(0);
            }
            int status;
            if (child < 0 || waitpid(child, &status, 0) != child || status)
                return 4;
            children++;
        }
        pause_milliseconds(20);
    }
    for (int i = 0; i < STAYING; i++)
        pthread_join(staying[i], 0);
    printf("%ld threads and %ld processes came and went\n", guests, children);
    return 0;
}
