// storages keep|refused|uncaught: asks for storages of tensors as torch does.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace c10 {
void *alloc_cpu(std::size_t size);
void free_cpu(void *storage);
} // namespace c10

constexpr std::size_t TOO_MUCH = std::size_t(1) << 47;

[[gnu::noinline]] static void keep() {
    static std::vector<void *> kept;
    for (std::size_t size = 10001; size <= 10010; size++)
        kept.push_back(c10::alloc_cpu(size));
}

// As a storage grows: a new one is filled, and then the old one freed.
[[gnu::noinline]] static void *grow(void *storage, std::size_t size) {
    void *larger = c10::alloc_cpu(size);
    std::memcpy(larger, storage, size / 2);
    c10::free_cpu(storage);
    return larger;
}

// Each thread frees what another has allocated.
static void hand_over() {
    constexpr int THREADS = 4, ROUNDS = 3000;
    std::atomic<void *> slots[THREADS] = {};
    std::vector<std::thread> threads;
    for (int number = 0; number < THREADS; number++)
        threads.emplace_back([&slots, number] {
            for (int round = 0; round < ROUNDS; round++)
                if (void *old = slots[(number + round) % THREADS].exchange(c10::alloc_cpu(20000 + round % 7)))
                    c10::free_cpu(old);
        });
    for (std::thread &thread : threads)
        thread.join();
    for (std::atomic<void *> &slot : slots)
        c10::free_cpu(slot);
}

[[gnu::noinline]] static int ask_for_too_much(int times) {
    int refused = 0;
    for (int time = 0; time < times; time++) {
        try {
            c10::alloc_cpu(TOO_MUCH);
        } catch (const std::runtime_error &error) {
            refused++;
        }
    }
    return refused;
}

int main(int, char **arguments) {
    std::string way = arguments[1];
    if (way == "keep") {
        c10::free_cpu(c10::alloc_cpu(0));
        keep();
        c10::free_cpu(grow(grow(c10::alloc_cpu(1001), 2002), 4004));
        hand_over();
    } else if (way == "refused") {
        std::printf("refused %d\n", ask_for_too_much(2));
        c10::free_cpu(c10::alloc_cpu(5005));
        std::printf("refused %d\n", ask_for_too_much(1));
        try {
            c10::alloc_cpu(static_cast<std::size_t>(-8));
        } catch (const std::length_error &error) {
            std::puts(error.what());
        }
        c10::free_cpu(c10::alloc_cpu(6006));
    } else {
        c10::alloc_cpu(TOO_MUCH);
    }
}
