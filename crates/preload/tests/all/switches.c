/* Makes a call 2000 times; prints how often the thread gave up the CPU, and how many of the calls took 10 us or more. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int count, char **words) {
    struct rusage before, after;
    int ends[2], late = 0;
    (void)count;
    if (pipe(ends) != 0) return 1;
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 2000; i++) {
        long long began = now();
        if (!strcmp(words[1], "usleep0")) usleep(0);
        if (!strcmp(words[1], "usleep1000")) usleep(1000);
        if (!strcmp(words[1], "yield")) sched_yield();
        if (!strcmp(words[1], "poll")) {
            struct pollfd fd = {ends[0], POLLIN, 0};
            poll(&fd, 1, 1);
        }
        long long asked = !strcmp(words[1], "usleep1000") || !strcmp(words[1], "poll") ? 1000000 : 0;
        late += now() - began - asked >= 10000;
    }
    getrusage(RUSAGE_THREAD, &after);
    printf("%ld %d\n", after.ru_nvcsw - before.ru_nvcsw, late);
    return 0;
}
