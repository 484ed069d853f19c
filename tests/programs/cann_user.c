/* A plugin that uses the device; with IN_CONSTRUCTOR, from a thread that its constructor waits for. */
#include <pthread.h>
#include <stdio.h>

int halMemAlloc(void **address, unsigned long long size, unsigned long long flag);
int halMemFree(void *address);
int rtKernelLaunch(void *, unsigned, void *, unsigned, void *, void *);

void *plugin_work(void *unused) {
    void *block = NULL;
    int allocated = halMemAlloc(&block, 4096, 0);
    int launched = rtKernelLaunch(NULL, 1, NULL, 0, NULL, NULL);
    int freed = halMemFree(block);
    printf("allocated %d launched %d freed %d\n", allocated, launched, freed);
    return unused;
}

#ifdef IN_CONSTRUCTOR
static __attribute__((constructor)) void use(void) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, plugin_work, NULL))
        pthread_join(thread, NULL);
}
#endif
