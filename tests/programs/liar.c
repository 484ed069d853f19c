// Preloaded: the time is what this library says, as with libraries that let programs live in another one.
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    now->tv_sec = now->tv_nsec = 1;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    now->tv_sec = now->tv_usec = 1;
    return 0;
}

time_t time(time_t *now) {
    if (now) *now = 1;
    return 1;
}
