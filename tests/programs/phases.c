/* phases: holds 8 MiB of the heap and a mapping of 16 MiB; each of 6 steps takes 4 MiB, then 2 MiB more, and gives both back;
   the fourth keeps 1 MiB. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "../../crates/memscope-preload/include/msmemscope.h"

enum { MIB = 1 << 20, STEPS = 6 };

static void *volatile base, *volatile mapping, *volatile kept;

static void *take(size_t size) {
    void *volatile block = malloc(size);
    if (!block)
        exit(2);
    return block;
}

__attribute__((noinline)) static void work(void) {
    void *activations = take(4 * MIB);
    void *gradients = take(2 * MIB);
    free(activations);
    free(gradients);
}

__attribute__((noinline)) static void keep(void) {
    kept = take(MIB);
}

int main(void) {
    const struct msmemscope_api *(*get)(void) = (const struct msmemscope_api *(*)(void))dlsym(RTLD_DEFAULT, "msmemscope_api");
    const struct msmemscope_api *recorder = get ? get() : 0;
    base = take(8 * MIB);
    mapping = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return 3;
    for (int step = 1; step <= STEPS; step++) {
        work();
        if (step == 4)
            keep();
        if (recorder)
            recorder->step();
    }
    return 0;
}
