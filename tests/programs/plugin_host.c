/* plugin_host <first library> <second library>: loads, calls and unloads one after the other. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) void *use(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    void *(*work)(void) = (void *(*)(void))dlsym(library, "plugin_work");
    for (int i = 0; i < 3; i++)
        if (!work())
            exit(3);
    Dl_info info;
    dladdr((void *)work, &info);
    void *base = info.dli_fbase;
    dlclose(library);
    return base;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 9;
    void *first = use(arguments[1]), *second = use(arguments[2]), *again = use(arguments[1]);
    puts(first == second && second == again ? "at one address" : "at different addresses");
    return 0;
}
