/* The first process of a kernel with large pages: runs each program that the kernel's command line names under msmemscope, and ends
   the machine. What is said goes to the console. */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    mount("proc", "/proc", "proc", 0, 0);
    mount("dev", "/dev", "devtmpfs", 0, 0);
    mount("none", "/tmp", "tmpfs", 0, 0);
    printf("### pages of %ld\n", sysconf(_SC_PAGESIZE));
    for (int each = 1; each < count; each++) {
        char output[64];
        int status = -1;
        snprintf(output, sizeof output, "--output=/tmp/%d", each);
        fflush(stdout);
        if (fork() == 0) {
            execl("/bin/msmemscope", "msmemscope", "--device=cpu", "--call-stack=c", "--data-format=none", output, "--",
                  arguments[each], NULL);
            _exit(127);
        }
        wait(&status);
        printf("### %s: status %d\n", arguments[each], status);
    }
    printf("### end\n");
    fflush(stdout);
    reboot(RB_POWER_OFF);
    return 0;
}
