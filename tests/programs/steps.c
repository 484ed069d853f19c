/* steps <rounds>: after each line of input allocates that many blocks and answers with a line. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 2)
        return 9;
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < atoi(arguments[1]); i++)
            free(malloc(i % 2000));
        puts("done");
        fflush(stdout);
    }
    return 0;
}
