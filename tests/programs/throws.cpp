// Exceptions through frames that allocate.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

[[gnu::noinline]] static void sink(int depth) {
    std::vector<char> owned(4001);
    if (depth == 0) {
        std::free(std::malloc(4002));
        throw std::runtime_error("from the deep");
    }
    sink(depth - 1);
    std::free(std::malloc(owned.size() + 2));
}

[[gnu::noinline]] static void caught() {
    std::free(std::malloc(4004));
}

[[gnu::noinline]] static void round_trip(int depth) {
    try {
        sink(depth);
    } catch (const std::runtime_error &error) {
        caught();
        if (depth == 0)
            std::puts(error.what());
    }
}

int main() {
    for (int round = 0; round < 200; round++)
        round_trip(round % 30);
}
