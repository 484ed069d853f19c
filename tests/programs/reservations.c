/* Address space reserved, committed, given up and moved, between two marks; and protections that change nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(condition) do { if (!(condition)) return __LINE__ % 250; } while (0)
static const int RW = PROT_READ | PROT_WRITE;

int main(void) {
    const size_t MIB = 1 << 20, GIB = 1 << 30;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    CHECK(malloc(900001));
    /* Of no interest as long as nothing is reserved. */
    char *code = mmap(0, MIB, RW, flags, -1, 0);
    CHECK(code != MAP_FAILED && mprotect(code, MIB, PROT_READ | PROT_EXEC) == 0 && mprotect(code, MIB, RW) == 0);
    CHECK(munmap(code, MIB) == 0);
    /* As Java and Go take a heap: far more than the machine has. */
    char *heap = mmap(0, 4096 * GIB, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
    CHECK(heap != MAP_FAILED);
    CHECK(mprotect(heap + GIB, 3 * MIB, RW) == 0);
    CHECK(mmap(heap + 2 * GIB, 5 * MIB, RW, flags | MAP_FIXED, -1, 0) == heap + 2 * GIB);
    memset(heap + GIB, 1, 3 * MIB);
    /* Usable before and after. */
    CHECK(mprotect(heap + GIB, 3 * MIB, PROT_READ) == 0);
    CHECK(mprotect(heap + GIB, 3 * MIB, RW) == 0);
    /* A hole in the middle. */
    CHECK(mprotect(heap + GIB + MIB, MIB, PROT_NONE) == 0);
    /* Refused: nothing changes. */
    CHECK(mprotect(heap + GIB + 1, MIB, PROT_NONE) == -1);
    CHECK(mprotect(heap + GIB, 0, PROT_NONE) == 0);
    /* As Java gives memory back. */
    CHECK(mmap(heap + 2 * GIB, MIB, PROT_NONE, flags | MAP_FIXED | MAP_NORESERVE, -1, 0) == heap + 2 * GIB);
    CHECK(malloc(900002));
    CHECK(pkey_mprotect(heap + 3 * GIB, 7 * MIB, RW, -1) == 0);
    puts("done");
    return 0;
}
