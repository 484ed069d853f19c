/* Programs that change the ground under themselves:
   surroundings closefrom | rename <from> <to> | few-files | small-files | drop-root | secure */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void churn(size_t size, int rounds) {
    for (int i = 0; i < rounds; i++)
        free(malloc(size));
}

static void limit(int resource, rlim_t value) {
    struct rlimit limit = {value, value};
    if (setrlimit(resource, &limit))
        exit(90);
}

static int close_from(void) {
    churn(6001, 1000);
    for (int file = 3; file < 4096; file++)
        close(file);
    /* Every low number is now a file of ours, those included that the library used. */
    struct stat first, now;
    int files = 0;
    for (int wanted = 3; wanted < 1200; wanted++, files++) {
        char name[32];
        snprintf(name, sizeof name, "file%d", wanted);
        if (open(name, O_CREAT | O_RDWR | O_APPEND, 0600) < 0)
            break;
    }
    churn(6002, 100000);
    for (int wanted = 0; wanted < files; wanted++) {
        char name[32];
        snprintf(name, sizeof name, "file%d", wanted + 3);
        if (stat(name, &now) || now.st_size != 0)
            return 2;
        first = now;
    }
    printf("%d files, last of %lld bytes\n", files, (long long)first.st_size);
    return 0;
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "closefrom")) {
        limit(RLIMIT_NOFILE, 4096);
        return close_from();
    }
    if (!strcmp(mode, "rename") && count == 4) {
        churn(6001, 1000);
        if (chdir("/") || rename(arguments[2], arguments[3]))
            return 3;
        churn(6002, 100000);
        return 0;
    }
    if (!strcmp(mode, "few-files")) {
        limit(RLIMIT_NOFILE, 16);
        churn(6001, 100000);
        for (int wanted = 3; wanted < 13; wanted++)
            if (open("/dev/null", O_RDONLY) < 0)
                return 5;
        churn(6002, 100000);
        return 0;
    }
    if (!strcmp(mode, "small-files")) {
        limit(RLIMIT_FSIZE, 600000);
        churn(6001, 200000);
        puts("not killed");
        return 0;
    }
    if (!strcmp(mode, "drop-root")) {
        churn(6001, 1000);
        if (setgroups(0, 0) || setgid(65534) || setuid(65534))
            return 4;
        churn(6002, 100000);
        pid_t child = fork();
        if (child == 0) {
            churn(6003, 100);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        return status;
    }
    if (!strcmp(mode, "secure")) {
        churn(6001, 10);
        printf("%d\n", getuid() != geteuid());
        return 0;
    }
    return 9;
}
