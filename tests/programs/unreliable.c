// unreliable [close]: closes all descriptors that are not its own, if asked to. Then:
// makes 1000 blocks of 8001 bytes, says so, waits to be told to go on, and makes and frees 100,000 of 8002.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Its number, for C libraries that do not know it yet.
enum { SYS_CLOSE_RANGE = 436 };

static void allocate(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

int main(int argc, char **argv) {
    char line[2];
    (void)argv;
    free(malloc(8000));
    if (argc > 1) syscall(SYS_CLOSE_RANGE, 3, ~0u, 0);
    allocate(1000, 8001);
    if (write(1, "ready\n", 6) != 6 || read(0, line, sizeof line) < 0) return 2;
    allocate(100000, 8002);
    return 0;
}
