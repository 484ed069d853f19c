/* A library that allocates when it is loaded, when it is called, and when it is unloaded. */
#include <stdlib.h>

static __attribute__((constructor)) void loaded(void) {
    if (!malloc(LOADED))
        abort();
}

static __attribute__((destructor)) void unloaded(void) {
    free(malloc(UNLOADED));
}

__attribute__((noinline)) void *FUNCTION(size_t size) {
    return malloc(size);
}

void *plugin_work(void) {
    return FUNCTION(CALLED);
}
