// Makes 1000 blocks of 8001 bytes, says so, waits to be told to go on, and makes and frees 100,000 of 8002.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void allocate(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

int main(void) {
    char line[2];
    allocate(1000, 8001);
    if (write(1, "ready\n", 6) != 6 || read(0, line, sizeof line) < 0) return 2;
    allocate(100000, 8002);
    return 0;
}
