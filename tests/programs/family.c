/* Processes that make processes: family fork | threads | small-stack | vfork | spawn | exec | clearenv | leaf */
#include <pthread.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile int stop;

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0)
        _exit(99);
}

static int wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        return 98;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

static int fork_once(void) {
    void *shared = malloc(1001);
    pid_t child = fork();
    if (child == 0) {
        free(shared);
        for (int i = 0; i < 5000; i++)
            free(malloc(2002));
        void *kept = malloc(2003);
        say(kept ? "child\n" : "no memory\n");
        _exit(5);
    }
    int status = wait_for(child);
    for (int i = 0; i < 3000; i++)
        free(malloc(1002));
    free(shared);
    say("parent\n");
    return status;
}

static void *churn(void *unused) {
    while (!stop)
        free(malloc(3003));
    return unused;
}

static int fork_among_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, churn, 0);
    int sum = 0;
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 100; i++)
                free(malloc(2002));
            _exit(1);
        }
        sum += wait_for(child);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    free(malloc(1002));
    return sum;
}

static void *fork_here(void *status) {
    pid_t child = fork();
    if (child == 0) {
        free(malloc(2002));
        _exit(6);
    }
    *(int *)status = wait_for(child);
    return 0;
}

static int fork_on_a_small_stack(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    pthread_t thread;
    int status = 96;
    if (pthread_create(&thread, &attributes, fork_here, &status))
        return 95;
    pthread_join(thread, 0);
    return status;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    char *leaf[] = {arguments[0], "leaf", 0};
    if (!strcmp(mode, "leaf")) {
        free(malloc(4004));
        say("leaf\n");
        return 7;
    }
    if (!strcmp(mode, "fork"))
        return fork_once();
    if (!strcmp(mode, "threads"))
        return fork_among_threads();
    if (!strcmp(mode, "small-stack"))
        return fork_on_a_small_stack();
    if (!strcmp(mode, "clearenv")) {
        clearenv();
        return fork_once();
    }
    free(malloc(1001));
    if (!strcmp(mode, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            execv(arguments[0], leaf);
            _exit(94);
        }
        int status = wait_for(child);
        free(malloc(1002));
        return status;
    }
    if (!strcmp(mode, "spawn")) {
        pid_t child;
        if (posix_spawn(&child, arguments[0], 0, 0, leaf, environ))
            return 93;
        int status = wait_for(child);
        free(malloc(1002));
        return status;
    }
    if (!strcmp(mode, "exec"))
        execv(arguments[0], leaf);
    return 92;
}
