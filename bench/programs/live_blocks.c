/* live_blocks [MOST]: what a profiler keeps in memory for each block that is alive.
 *
 * Allocates up to MOST blocks of 48 bytes and frees none, and says at 10 thousand, 100 thousand, … blocks how large the
 * process is. The table of blocks is a plain mapping, touched beforehand, so that it never counts as growth. */
#include "bench.h"
#include <sys/mman.h>

static NOINLINE void *from_here(size_t size) { void *block = malloc(size); KEEP_FRAME(); return block; }
static NOINLINE void *from_there(size_t size) { void *block = from_here(size); KEEP_FRAME(); return block; }

int bench_main(int argc, char **argv) {
    long most = argc > 1 ? atol(argv[1]) : 2000000;
    size_t bytes = (size_t)most * sizeof(void *);
    void **live = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (live == MAP_FAILED) return 1;
    printf("BENCH {\"events\": %ld, \"rss_kb\": {", most);
    long mark = 10000;
    for (long count = 0; count < most;) {
        live[count] = (count & 1) ? from_here(48) : from_there(48);
        if (!live[count]) return 1;
        *(volatile char *)live[count] = 1;
        count++;
        if (count == mark || count == most) {
            printf("%s\"%ld\": %ld", mark == 10000 ? "" : ", ", count, status_kb("VmRSS:"));
            mark *= 10;
        }
    }
    printf("}, \"hwm_kb\": %ld}\n", status_kb("VmHWM:"));
    fflush(stdout);
    return 0;
}
