/* Blocks for which an allocator maps memory of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (int i = 0; i < 20; i++) {
        char *block = malloc(64 << 20);
        memset(block, i, 4096);
        free(block);
    }
    char *kept = malloc((64 << 20) + 1);
    kept = realloc(kept, (128 << 20) + 1);
    puts(kept ? "kept" : "no memory");
    return 0;
}
