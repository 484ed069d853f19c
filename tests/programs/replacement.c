/* A library that has the program allocate, from FUNCTION. ROOM bytes make it larger. */
#include <stddef.h>

char room_of_the_library[ROOM];

__attribute__((noinline)) void *FUNCTION(void *(*allocate)(size_t)) {
    void *block = allocate(SIZE);
    room_of_the_library[0] += block != NULL;
    return block;
}

void *plugin_work(void *(*allocate)(size_t)) {
    return FUNCTION(allocate);
}
