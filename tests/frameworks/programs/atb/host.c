/* Runs the model: `host model|probes|many [library]`. With a library the model is opened out of everybody's sight, as Python
 * does, and with it ATB and libstdc++; else it is linked. */
#include <dlfcn.h>
#include <stdio.h>

#ifdef LINKED
int run_model(const char *);
#endif

int main(int count, char **arguments) {
    if (count < 2) return 2;
#ifdef LINKED
    return run_model(arguments[1]);
#else
    void *library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    int (*run)(const char *) = (int (*)(const char *))dlsym(library, "run_model");
    return run ? run(arguments[1]) : 1;
#endif
}
