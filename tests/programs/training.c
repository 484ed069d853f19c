/* training STEPS KEPT: each step takes memory of a device, launches three kernels and gives the memory back; from the third step
   on, each keeps a block of KEPT bytes more. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "../../crates/memscope-preload/include/msmemscope.h"

int halMemAlloc(void **address, unsigned long long size, unsigned long long flag);
int halMemFree(void *address);
int rtKernelLaunch(void *, unsigned, void *, unsigned, void *, void *);

static void *take(unsigned long long size) {
    void *block = NULL;
    if (halMemAlloc(&block, size, 0))
        exit(2);
    return block;
}

static void launch(void) {
    /* What the library of the tests answers. */
    if (rtKernelLaunch(NULL, 1, NULL, 0, NULL, NULL) != 4711)
        exit(3);
}

__attribute__((noinline)) static void keep(unsigned long long size) {
    take(size);
}

int main(int count, char **arguments) {
    if (count != 3)
        return 9;
    const struct msmemscope_api *(*get)(void) = (const struct msmemscope_api *(*)(void))dlsym(RTLD_DEFAULT, "msmemscope_api");
    const struct msmemscope_api *recorder = get ? get() : 0;
    unsigned long long kept = strtoull(arguments[2], NULL, 10);
    take(1 << 20);
    for (int step = 1; step <= atoi(arguments[1]); step++) {
        void *output = take(4096);
        launch();
        void *gradient = take(8192);
        if (step >= 3 && kept)
            keep(kept);
        launch();
        halMemFree(output);
        halMemFree(gradient);
        launch();
        if (recorder)
            recorder->step();
    }
    return 0;
}
