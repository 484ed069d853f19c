// counted <library>: memory before main, in threads, in a library's constructors, in containers, and after main.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static std::vector<std::string> before_main(100, "a string too long for the object itself, so that it allocates");

static void work(int number) {
    std::map<int, std::string> map;
    for (int i = 0; i < 20000; i++) {
        map[i % 97 + number].append(std::to_string(i)).append(40, 'x');
        if (i % 31 == 0)
            map.erase(i % 97 + number);
        void *block = std::malloc(i % 700);
        block = std::realloc(block, i % 900 + 1);
        void *aligned = nullptr;
        if (posix_memalign(&aligned, 64, i % 300))
            std::abort();
        std::free(aligned);
        std::free(block);
    }
}

int main(int count, char **arguments) {
    if (count != 2)
        return 9;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(work, i);
    for (int i = 0; i < 10; i++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!library)
            return 2;
        dlclose(library);
    }
    for (auto &thread : threads)
        thread.join();
    std::atexit([] { std::free(std::malloc(9999)); });
    std::printf("%zu strings\n", before_main.size());
}
