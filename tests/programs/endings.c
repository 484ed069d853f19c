/* Ways to end: endings exit | _exit | abort | quick_exit | segv | kill */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char alternate[65536];

static __attribute__((constructor)) void before_main(void) {
    if (!malloc(8000))
        abort();
}

static __attribute__((destructor)) void after_main(void) {
    if (!malloc(8009))
        abort();
}

static void at_exit(void) {
    if (!malloc(8002))
        abort();
}

static void on_fault(int signal) {
    (void)signal;
    void *block = malloc(8003);
    static const char text[] = "fault handled\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(8);
    _exit(block ? 7 : 9);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    void *block = malloc(8001);
    atexit(at_exit);
    at_quick_exit(at_exit);
    if (!strcmp(mode, "exit"))
        exit(block ? 3 : 4);
    if (!strcmp(mode, "_exit"))
        _exit(block ? 3 : 4);
    if (!strcmp(mode, "abort"))
        abort();
    if (!strcmp(mode, "quick_exit"))
        quick_exit(block ? 3 : 4);
    if (!strcmp(mode, "kill"))
        kill(getpid(), SIGTERM);
    if (!strcmp(mode, "segv")) {
        stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
        sigaction(SIGSEGV, &action, 0);
        *(volatile int *)16 = 1;
    }
    return 9;
}
