/* A small service with a leak: every tenth request keeps its parsed header for ever. */
#include <stdlib.h>
#include <string.h>

struct header {
    char name[64];
    struct header *next;
};

static struct header *forgotten;

static struct header *parse_header(const char *name)
{
    struct header *header = malloc(sizeof *header);
    strncpy(header->name, name, sizeof header->name - 1);
    return header;
}

static void handle_request(int number)
{
    char *body = malloc(4096);
    memset(body, number, 4096);
    struct header *header = parse_header("Content-Length");
    if (number % 10 == 0) {
        header->next = forgotten; /* the bug: nobody ever frees this list */
        forgotten = header;
    } else {
        free(header);
    }
    free(body);
}

static char *build_cache(void)
{
    return calloc(256, 1024); /* meant to live as long as the program */
}

int main(void)
{
    volatile char *cache = build_cache();
    cache[0] = 1;
    for (int i = 0; i < 5000; i++)
        handle_request(i);
    return 0;
}
