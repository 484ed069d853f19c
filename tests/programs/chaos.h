/* What one process of chaos.c has done. */
#include <stdatomic.h>
#include <stdint.h>

enum { ALLOCATED, FREED, MAPPED, UNMAPPED, KINDS };

struct chaos_counts {
    _Atomic uint64_t events[KINDS];
    /* Calls that were left half way, by a jump or because the process was forked in the middle of one. */
    _Atomic uint64_t left;
};

/* Both are in the preloaded library. */
struct chaos_counts *chaos_counts(void) __attribute__((weak));
/* From here on this process counts in a file of its own. */
void chaos_begin(struct chaos_counts *first) __attribute__((weak));
