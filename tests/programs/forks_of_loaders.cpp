// forks_of_loaders <library> throw|iterate: forks while other threads throw, or do what a throw did with older C libraries,
// and load and unload the library; the children allocate.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<bool> done;

[[gnu::noinline]] static void thrower(int depth) {
    if (depth == 0)
        throw std::runtime_error("again");
    thrower(depth - 1);
    std::puts("not reached");
}

[[gnu::noinline]] static void *in_the_child(int depth) {
    void *block = depth ? in_the_child(depth - 1) : std::malloc(6001);
    std::free(std::malloc(12));
    return block;
}

[[gnu::noinline]] static void iterate() {
    dl_iterate_phdr([](dl_phdr_info *, size_t, void *) { return 0; }, nullptr);
}

int main(int count, char **arguments) {
    if (count != 3)
        return 9;
    const char *path = arguments[1];
    const bool throws = !std::strcmp(arguments[2], "throw");
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([throws] {
            while (!done)
                try {
                    if (throws)
                        thrower(20);
                    iterate();
                } catch (const std::runtime_error &) {
                }
        });
    threads.emplace_back([path] {
        while (!done) {
            void *library = dlopen(path, RTLD_NOW);
            if (!library)
                std::abort();
            auto work = reinterpret_cast<void *(*)(void *(*)(size_t))>(dlsym(library, "plugin_work"));
            std::free(work(std::malloc));
            dlclose(library);
        }
    });
    int ended = 0;
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(in_the_child(5) ? 0 : 1);
        }
        int status;
        ended += waitpid(child, &status, 0) == child && status == 0;
    }
    done = true;
    for (auto &thread : threads)
        thread.join();
    std::printf("%d children ended\n", ended);
}
