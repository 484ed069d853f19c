/* The recorder's table, for programs that want to say what is to be traced.
 *
 *     const struct msmemscope_api *(*get)(void) = dlsym(RTLD_DEFAULT, "msmemscope_api");
 *     const struct msmemscope_api *recorder = get ? get() : 0;
 *     if (recorder && recorder->size >= sizeof *recorder) recorder->start();
 *
 * The table only grows: check `size` before using a member. Members that are not named here are for our own libraries. */
#ifndef MSMEMSCOPE_H
#define MSMEMSCOPE_H
#include <stdint.h>

struct msmemscope_api {
    uint32_t size;
    uint32_t version;
    const void *ours[9];
    /* Tracing from here on (with --collect-mode=deferred nothing is traced before), and up to here. */
    void (*start)(void);
    void (*stop)(void);
    /* A step of the program ends. */
    void (*step)(void);
    /* What is in use of a device's memory is told in the results, under this name (NULL: "Memory Snapshot"). The device is
     * numbered as the program numbers it; negative: the one the calling thread uses. */
    void (*snapshot)(const char *name, int32_t device);
};

#endif
