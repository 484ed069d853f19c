/* leaking_steps <steps>: in each step a buffer is kept, a table is made once, a batch is fetched ahead and given back in the
 * next step, and a list grows by reallocation. Without a recorder, or with 0 steps marked, it does the same. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "../../crates/memscope-preload/include/msmemscope.h"

#define ROUNDS 40

static void *kept[ROUNDS];
static void *table, *ahead;
static char *list;

__attribute__((noinline)) void *make_table(void) { return calloc(1, 300000); }
__attribute__((noinline)) void *fetch_batch(void) { return calloc(1, 200000); }
__attribute__((noinline)) void *keep_buffer(void) { return calloc(1, 100000); }
__attribute__((noinline)) char *append(char *old, int round) { return realloc(old, (size_t)(round + 1) * 50000); }

int main(int count, char **arguments) {
    const struct msmemscope_api *(*get)(void) = (const struct msmemscope_api *(*)(void))dlsym(RTLD_DEFAULT, "msmemscope_api");
    const struct msmemscope_api *recorder = get ? get() : 0;
    int marked = count > 1 ? atoi(arguments[1]) : 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 0)
            table = make_table();
        void *batch = fetch_batch();
        free(ahead);
        ahead = batch;
        kept[round] = keep_buffer();
        list = append(list, round);
        if (!list)
            return 9;
        memset(list, round, 16);
        if (recorder && round < marked)
            recorder->step();
    }
    return 0;
}
