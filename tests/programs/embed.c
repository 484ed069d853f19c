/* embed LIBPYTHON SCRIPT [unload]: loads Python while it runs, out of everybody's sight, runs the script, and at the end
 * unloads it and allocates once more. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return found;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 9;
    /* The recording has long begun. */
    for (int i = 0; i < 1000; i++)
        free(malloc(31000));
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void (*initialise)(int) = (void (*)(int))find(library, "Py_InitializeEx");
    int (*run)(const char *) = (int (*)(const char *))find(library, "PyRun_SimpleString");
    int (*finalise)(void) = (int (*)(void))find(library, "Py_FinalizeEx");
    initialise(0);
    FILE *file = fopen(arguments[2], "r");
    static char script[65536];
    script[fread(script, 1, sizeof script - 1, file)] = 0;
    fclose(file);
    int answer = run(script);
    finalise();
    dlclose(library);
    for (int i = 0; i < 1000; i++)
        free(malloc(32000));
    return answer;
}
