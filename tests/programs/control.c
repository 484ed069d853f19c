/* control: allocates before, between and after start and stop, with two steps in between. */
#include <dlfcn.h>
#include <stdlib.h>
#include "../../crates/memscope-preload/include/msmemscope.h"

static void *kept[8];

int main(void) {
    const struct msmemscope_api *(*get)(void) = (const struct msmemscope_api *(*)(void))dlsym(RTLD_DEFAULT, "msmemscope_api");
    const struct msmemscope_api *recorder = get ? get() : 0;
    if (recorder && recorder->size < sizeof *recorder)
        return 9;
    kept[0] = malloc(100001);
    free(malloc(100002));
    if (recorder)
        recorder->start();
    kept[1] = malloc(100003);
    if (recorder)
        recorder->step();
    kept[2] = malloc(100004);
    if (recorder) {
        recorder->step();
        recorder->stop();
    }
    kept[3] = malloc(100005);
    free(kept[1]);
    return 0;
}
