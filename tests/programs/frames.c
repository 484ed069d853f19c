/* Known functions around an allocation, directly and through qsort of libc. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void *inner(size_t size) {
    return malloc(size);
}

__attribute__((noinline)) void *middle(size_t size) {
    return inner(size);
}

__attribute__((noinline)) void *outer(size_t size) {
    return middle(size);
}

__attribute__((noinline)) int compare(const void *left, const void *right) {
    free(malloc(31338));
    return *(const int *)left - *(const int *)right;
}

int main(void) {
    void *block = outer(31337);
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], compare);
    free(block);
    printf("%d\n", numbers[0]);
    return 0;
}
