/* A few functions of CANN, under whatever file name a test gives the library. */
#include <semaphore.h>
#include <stdlib.h>

int halMemAlloc(void **address, unsigned long long size, unsigned long long flag) {
    (void)flag;
    *address = malloc(size);
    return *address ? 0 : 6;
}

int halMemFree(void *address) {
    free(address);
    return 0;
}

/* An answer that nobody else would give. */
int rtKernelLaunch(void *stub, unsigned blocks, void *arguments, unsigned size, void *description, void *stream) {
    (void)stub, (void)blocks, (void)arguments, (void)size, (void)description, (void)stream;
    return 4711;
}

/* If they are there, says that the profiler is being registered, and waits until that may end. */
sem_t *registering, *may_register;

int MsprofRegisterProfileCallback(int kind, void *function, unsigned size) {
    (void)kind, (void)function, (void)size;
    if (registering) {
        sem_post(registering);
        while (sem_wait(may_register))
            ;
        registering = NULL;
    }
    return 0;
}
