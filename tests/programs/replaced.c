/* replaced <way> <library>...: loads, calls and unloads one after the other, so that one lies where another lay.
   Ways to unload, or to load: "hidden", by a `dlclose` found in the C library itself; "namespace", that and a namespace of
   its own; "conversions", each library is loaded after conversion modules were unloaded by `iconv_close`, and stays. */
#include <dlfcn.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Allocate(size_t size);

static __attribute__((noinline)) void convert(const char *encoding) {
    iconv_t conversion = iconv_open("UTF-8", encoding);
    if (conversion == (iconv_t)-1) {
        fprintf(stderr, "no conversion from %s\n", encoding);
        exit(4);
    }
    iconv_close(conversion);
}

static __attribute__((noinline)) void use(const char *way, const char *path, int (*unload)(void *)) {
    if (!strcmp(way, "conversions")) {
        static const char *const encodings[] = {"ISO-2022-JP", "ISO-2022-KR", "ISO-2022-CN", "EUC-JP", "EUC-KR", "SJIS",
                                                "GB18030", "BIG5-HKSCS"};
        for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
            convert(encodings[i]);
    }
    void *library = strcmp(way, "namespace") ? dlopen(path, RTLD_NOW) : dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    void *(*work)(Allocate *) = (void *(*)(Allocate *))dlsym(library, "plugin_work");
    for (int i = 0; i < 20; i++)
        if (!work(malloc))
            exit(3);
    if (strcmp(way, "conversions"))
        unload(library);
}

int main(int count, char **arguments) {
    if (count < 3)
        return 9;
    /* Before glibc 2.34 in a library of its own; since then that one is empty and needs the C library. */
    void *c_library = dlopen("libdl.so.2", RTLD_NOW);
    int (*unload)(void *) = (int (*)(void *))dlsym(c_library, "dlclose");
    if (!unload)
        return 8;
    for (int i = 2; i < count; i++)
        use(arguments[1], arguments[i], unload);
    return 0;
}
