/* Allocates and frees at full speed until it is killed. What has returned is noted in a shared file:
   usage: killed <log file> <threads> */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RING = 1 << 16, SLOTS = 64, MARK = 123457 };

struct log {
    _Atomic uint64_t done;
    uint64_t padding[7];
    uint64_t address[RING];
};

static struct log *logs;

/* The harness computes the same sequence. */
static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static __attribute__((noinline)) void *leaf(size_t size) {
    return malloc(size);
}

static __attribute__((noinline)) void *branch(uint64_t choice, size_t size) {
    if (choice & 1)
        return leaf(size);
    return malloc(size);
}

static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    struct log *log = &logs[number];
    uint64_t state = number;
    void *slots[SLOTS] = {0};
    if (!malloc(MARK))
        abort();
    for (uint64_t event = 0;; event++) {
        uint64_t choice = next(&state);
        void **slot = &slots[choice % SLOTS];
        log->address[event % RING] = (uintptr_t)*slot;
        if (*slot) {
            free(*slot);
            *slot = 0;
        } else {
            *slot = branch(choice, choice % 5000);
            log->address[event % RING] = (uintptr_t)*slot;
        }
        atomic_store_explicit(&log->done, event + 1, memory_order_release);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    int file = open(arguments[1], O_RDWR);
    int threads = atoi(arguments[2]);
    logs = mmap(0, threads * sizeof *logs, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (logs == MAP_FAILED)
        return 3;
    for (int thread = 1; thread < threads; thread++) {
        pthread_t handle;
        if (pthread_create(&handle, 0, work, (void *)(uintptr_t)thread))
            return 4;
    }
    work(0);
}
