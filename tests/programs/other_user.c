/* Becomes another user, or enters another root directory, and goes on in children and another program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) return __LINE__ % 250; } while (0)

static void hold(size_t size, int count) {
    for (int i = 0; i < count; i++) free(malloc(size));
    if (!malloc(size)) abort();
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "again") == 0) {
        hold(3333, 30000);
        return 0;
    }
    hold(1111, 10);
    if (count > 1) CHECK(chroot(arguments[1]) == 0 && chdir("/") == 0);
    CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    pid_t child = fork();
    if (child == 0) {
        hold(2222, 20000);
        if (count > 1) return 0;
        execl("/proc/self/exe", arguments[0], "again", (char *)0);
        return 1;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    hold(1112, 10);
    puts("done");
    return 0;
}
