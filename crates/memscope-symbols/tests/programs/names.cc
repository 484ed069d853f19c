#include <cstdio>
extern char __executable_start;

__attribute__((noinline)) void report() {
    std::printf("%lx\n", (unsigned long)((char *)__builtin_return_address(0) - &__executable_start));
}

namespace pool {
template <typename T> struct Arena {
    T last;
    __attribute__((always_inline)) void grow(T by) {
        report();  // line 12
        last = by;
    }
    __attribute__((noinline)) void get(T size, const char *);
};
template <typename T> void Arena<T>::get(T size, const char *) {
    grow(size);  // line 18
}
}  // namespace pool

namespace {
__attribute__((noinline)) void hidden(volatile int *out) {
    report();  // line 24
    *out = 1;
}
}  // namespace

int main(int argc, char **) {
    volatile int sink;
    pool::Arena<int> arena;
    arena.get(argc, "");
    hidden(&sink);
    return arena.last - argc;
}
