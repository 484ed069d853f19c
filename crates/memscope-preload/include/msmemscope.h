/* The recorder's table, for programs that want to say what is to be traced.
 *
 *     const struct msmemscope_api *(*get)(void) = dlsym(RTLD_DEFAULT, "msmemscope_api");
 *     const struct msmemscope_api *recorder = get ? get() : 0;
 *     if (recorder && recorder->size >= sizeof *recorder) recorder->start();
 *
 * The table only grows: check `size` before using a member. Members that are not named here are for our own libraries. */
#ifndef MSMEMSCOPE_H
#define MSMEMSCOPE_H
#include <stddef.h>
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
    const void *ours_too[5];
    /* A moment and a range, named by the program; texts are bytes with their length, here and below. */
    void (*mark)(const char *text, size_t length);
    uint64_t (*range_start)(const char *text, size_t length);
    void (*range_end)(uint64_t range);
    /* What the calling thread allocates has this label, from here on and up to here; the block around an address has it. Level 5 is
     * the user's own, of which any number may be open; 0 to 4 are for frameworks, and of each the innermost counts. */
    void (*label_start)(uint8_t level, const char *text, size_t length);
    void (*label_end)(uint8_t level, const char *text, size_t length);
    void (*label_block)(size_t address, uint8_t level, const char *text, size_t length);
};

#endif
