/* Mappings made, cut, covered and moved, between two marks. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) return __LINE__ % 250; } while (0)

int main(int count, char **arguments) {
    enum { PAGE = 4096 };
    (void)count;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, protection = PROT_READ | PROT_WRITE;
    CHECK(malloc(900001));
    char *area = mmap(0, 37 * PAGE, protection, flags, -1, 0);
    CHECK(area != MAP_FAILED);
    CHECK(munmap(area + 4 * PAGE, 4 * PAGE) == 0);
    CHECK(mmap(area + 8 * PAGE, 2 * PAGE - 1, protection, flags | MAP_FIXED, -1, 0) == area + 8 * PAGE);
    int file = open(arguments[0], O_RDONLY);
    CHECK(mmap(area + 12 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == area + 12 * PAGE);
    CHECK(munmap(area, 2 * PAGE) == 0);
    CHECK(munmap(area + 1, PAGE) == -1);
    CHECK(munmap(area, 0) == -1);
    CHECK(munmap(area, (size_t)1 << 47) == -1);
    CHECK(munmap(area, (size_t)-PAGE) == -1);
    CHECK(mmap(0, 0, protection, flags, -1, 0) == MAP_FAILED);
    char *grows = mmap(0, 3 * PAGE, protection, flags, -1, 0);
    CHECK(grows != MAP_FAILED);
    grows[5] = 9;
    grows = mremap(grows, 3 * PAGE, 53 * PAGE, MREMAP_MAYMOVE);
    CHECK(grows != MAP_FAILED && grows[5] == 9);
    CHECK(mremap(area + 1, PAGE, 2 * PAGE, 0) == MAP_FAILED);
    char *place = mmap(0, 61 * PAGE, protection, flags, -1, 0);
    char *fixed = mremap(grows, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 60 * PAGE);
    CHECK(fixed == place + 60 * PAGE && fixed[5] == 9);
    CHECK(malloc(900002));
    puts("done");
    return 0;
}
