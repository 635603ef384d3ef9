/* A bare loop around clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME): what a C programmer would write to see how late it
 * wakes up. Prints the lateness of each wait in nanoseconds, one a line, once all waits are over.
 *
 *     absolute_sleep WAITS PERIOD_NS PRIORITY    (priority 0: SCHED_OTHER)
 *
 * Memory is locked and /dev/cpu_dma_latency is held at 0, as cyclictest does. */
#define _GNU_SOURCE
#include "bare.h"

#include <fcntl.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: absolute_sleep WAITS PERIOD_NS PRIORITY\n");
        return 2;
    }
    long waits = atol(argv[1]);
    int64_t period = atoll(argv[2]);
    struct sched_param param = { .sched_priority = atoi(argv[3]) };
    int64_t *late = calloc(waits, sizeof *late);
    int32_t zero = 0;
    int dma = open("/dev/cpu_dma_latency", O_WRONLY);
    if (dma >= 0 && write(dma, &zero, sizeof zero) != sizeof zero)
        perror("cpu_dma_latency");
    if (!late || mlockall(MCL_CURRENT | MCL_FUTURE))
        perror("mlockall");
    if (param.sched_priority && sched_setscheduler(0, SCHED_FIFO, &param))
        die("sched_setscheduler");
    for (long i = 0; i < waits; i++) {
        int64_t deadline = now() + period;
        struct timespec ts = { deadline / 1000000000, deadline % 1000000000 };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
            ;
        late[i] = now() - deadline;
    }
    for (long i = 0; i < waits; i++)
        printf("%lld\n", (long long)late[i]);
    return 0;
}
