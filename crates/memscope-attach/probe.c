/* Refers to functions of both recording libraries. Loaded after they were attached, it shows to what such a library is bound;
   nothing in it is ever called. */
void *malloc(unsigned long);
int dlclose(void *);

int msmemscope_probe(void) {
    return dlclose(malloc(1));
}
