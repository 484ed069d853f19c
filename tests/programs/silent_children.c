/* Children that allocate nothing: by fork and by vfork, ended by _exit, exit and exec. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count == 2)
        return 0;
    void *volatile block = malloc(100);
    for (volatile int number = 0; number < 40; number++) {
        pid_t child = number % 4 == 3 ? vfork() : fork();
        if (child == 0) {
            if (number % 4 == 0)
                _exit(0);
            if (number % 4 == 1)
                exit(0);
            execl("/proc/self/exe", arguments[0], "nothing", (char *)0);
            _exit(9);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return 1;
    }
    free(block);
    return 0;
}
