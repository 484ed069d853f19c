/* Lives until the directory named holds a note about this process. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int noted(const char *directory) {
    char line[4096], start[32];
    int found = 0;
    snprintf(start, sizeof start, "%d\t", (int)getpid());
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *kind = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "run_", 4) != 0 || strcmp(kind ? kind : "", ".unrecorded") != 0) continue;
        snprintf(line, sizeof line, "%s/%s", directory, entry->d_name);
        FILE *file = fopen(line, "r");
        while (file && fgets(line, sizeof line, file)) found |= strncmp(line, start, strlen(start)) == 0;
        if (file) fclose(file);
    }
    if (entries) closedir(entries);
    return found;
}

int main(int count, char **arguments) {
    for (int tries = 0; count > 1 && tries < 20000; tries++) {
        if (noted(arguments[1])) return 0;
        usleep(1000);
    }
    return 1;
}
