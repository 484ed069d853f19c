// Every way of the C library to another program: each begins PROGRAM in a child, with arguments and an environment of its own.
//
// execs PROGRAM: prints what the children's ends were. PROGRAM is looked for in PATH, or in the working directory.
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define TEN "1", "2", "3", "4", "5", "6", "7", "8", "9", "ten"

static const char *path, *name;
static char *more[400];

static void by_execve(void) { execve(path, (char *[]){"execve", "a b", "", NULL}, environ); }
static void by_execve_without(void) { execve(path, (char *[]){"execve without environment", NULL}, NULL); }
static void by_execv(void) { execv(path, (char *[]){"execv", "x", NULL}); }
static void by_execvp(void) { execvp(name, (char *[]){"execvp", "x", NULL}); }
static void by_execvpe(void) { execvpe(name, (char *[]){"execvpe", NULL}, environ); }
static void by_execl(void) { execl(path, "execl", "x", NULL); }
static void by_execl_ten(void) { execl(path, "execl ten", TEN, NULL); }
static void by_execlp(void) { execlp(name, "execlp", TEN, NULL); }
static void by_execle(void) { execle(path, "execle", TEN, NULL, environ); }
static void by_execle_few(void) { execle(path, "execle few", NULL, environ); }
/// Where nothing is; the compiler is not to know.
static char *volatile nowhere = (char *)16;

static void by_no_name(void) { execve(nowhere, (char *[]){"x", NULL}, environ); }
static void by_no_name_without(void) { execv(nowhere, (char *[]){"x", NULL}); }
static void by_no_environment(void) { execve(path, (char *[]){"x", NULL}, (char **)nowhere); }
static void by_no_variable(void) { execve(path, (char *[]){"x", NULL}, (char *[]){"A=1", nowhere, NULL}); }
static void by_nothing(void) { execlp("there is no such program", "nothing", NULL); }

/// More words than fit into registers or our own room for them.
static void by_execl_many(void) {
#define FOUR(n) more[n], more[n + 1], more[n + 2], more[n + 3]
#define SIXTEEN(n) FOUR(n), FOUR(n + 4), FOUR(n + 8), FOUR(n + 12)
#define SIXTY_FOUR(n) SIXTEEN(n), SIXTEEN(n + 16), SIXTEEN(n + 32), SIXTEEN(n + 48)
    execl(path, "execl many", SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192), SIXTY_FOUR(256), NULL);
}

static void report(const char *way, pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) perror(way);
    printf("%s: status %d\n", way, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
}

static void try(const char *way, void begin(void)) {
    pid_t child = fork();
    if (child == 0) {
        begin();
        _exit(errno == ENOENT ? 100 : errno == EFAULT ? 101 : 102);
    }
    report(way, child);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    path = argv[1];
    name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (int i = 0; i < 400; i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        more[i] = strdup(number);
    }
    try("execve", by_execve);
    try("execve without environment", by_execve_without);
    try("execv", by_execv);
    try("execvp", by_execvp);
    try("execvpe", by_execvpe);
    try("execl", by_execl);
    try("execl ten", by_execl_ten);
    try("execl many", by_execl_many);
    try("execlp", by_execlp);
    try("execle", by_execle);
    try("execle few", by_execle_few);
    try("nothing", by_nothing);
    try("no name", by_no_name);
    try("no name, without environment", by_no_name_without);
    try("no environment", by_no_environment);
    try("no variable", by_no_variable);
    pid_t child = vfork();
    if (child == 0) {
        execv(path, (char *[]){"vfork", NULL});
        _exit(102);
    }
    report("vfork", child);
    char *arguments[] = {"spawn", "x", NULL};
    if (posix_spawn(&child, path, NULL, NULL, arguments, environ)) child = -1;
    report("posix_spawn", child);
    if (posix_spawnp(&child, name, NULL, NULL, arguments, environ)) child = -1;
    report("posix_spawnp", child);
    printf("posix_spawn of nothing: %d\n", posix_spawn(&child, "/there/is/none", NULL, NULL, arguments, environ));
    return 0;
}
