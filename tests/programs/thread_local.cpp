// Memory in the constructors and destructors of thread-local objects.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

struct Guest {
    void *block = std::malloc(7001);
    ~Guest() {
        std::free(std::malloc(7002));
        std::free(block);
    }
};

static thread_local Guest guest;
static thread_local std::vector<char> late(7003);

int main() {
    for (int round = 0; round < 5; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([] { std::free(guest.block ? std::malloc(late.size() + 1) : nullptr); });
        for (auto &thread : threads)
            thread.join();
    }
    std::puts("done");
}
