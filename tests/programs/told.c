// Prints how it was begun: its arguments, and what it has of an environment but for the recorder's own variables.
#include <stdio.h>
#include <string.h>

extern char **environ;

int main(int argc, char **argv) {
    printf("%d words:", argc);
    for (int i = 0; i < argc; i++) printf(" [%s]", argv[i]);
    int count = 0;
    for (char **variable = environ; variable && *variable; variable++)
        count += !!strncmp(*variable, "LD_PRELOAD=", 11) && !!strncmp(*variable, "MSMEMSCOPE", 10) && !!strncmp(*variable, "ASAN", 4);
    printf(", %d variables\n", count);
    return 7;
}
