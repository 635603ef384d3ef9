/* Makes a call 2000 times, or 500 times if it waits for 1 ms. Prints how often the thread gave up the CPU, and how many calls took 10 us or
   more. It also prints how many of these did not give up the CPU. A call lasts from the end of the one before: no time is left out. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static sem_t semaphore;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int count, char **words) {
    struct rusage before, after;
    int ends[2], late = 0, slow = 0;
    (void)count;
    if (pipe(ends) != 0) return 1;
    long long asked = !strcmp(words[1], "usleep0") || !strcmp(words[1], "yield") ? 0 : 1000000;
    int calls = asked ? 500 : 2000;
    getrusage(RUSAGE_THREAD, &before);
    after = before;
    long long began = now();
    for (int i = 0; i < calls; i++) {
        if (!strcmp(words[1], "usleep0")) usleep(0);
        if (!strcmp(words[1], "usleep1000")) usleep(1000);
        if (!strcmp(words[1], "until")) {
            struct timespec until = {(began + 1000000) / 1000000000, (began + 1000000) % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        if (!strcmp(words[1], "yield")) sched_yield();
        if (!strcmp(words[1], "poll")) {
            struct pollfd fd = {ends[0], POLLIN, 0};
            poll(&fd, 1, 1);
        }
        if (!strcmp(words[1], "select")) {
            fd_set set;
            FD_ZERO(&set);
            FD_SET(ends[0], &set);
            struct timeval limit = {0, 1000};
            select(ends[0] + 1, &set, NULL, NULL, &limit);
        }
        if (!strcmp(words[1], "sem")) {
            struct timespec until = {(began + 1000000) / 1000000000, (began + 1000000) % 1000000000};
            sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until);
        }
        long switches = after.ru_nvcsw;
        getrusage(RUSAGE_THREAD, &after);
        long long ended = now();
        int is_late = ended - began - asked >= 10000;
        late += is_late;
        slow += is_late && after.ru_nvcsw == switches;
        began = ended;
    }
    printf("%ld %d %d\n", after.ru_nvcsw - before.ru_nvcsw, late, slow);
    return 0;
}
