#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* On one CPU: two threads that poll for each other's answer, alone or beside one that computes. */

static atomic_int turn;
static atomic_bool ended;
static bool yields;
static long round_trips, computed;

static void poll_until(int own)
{
    while (atomic_load(&turn) != own && !atomic_load(&ended))
        if (yields)
            sched_yield();
        else
            usleep(0);
}

static void *answer(void *unused)
{
    while (!atomic_load(&ended)) {
        poll_until(1);
        atomic_store(&turn, 0);
    }
    return unused;
}

static void *ask(void *unused)
{
    while (!atomic_load(&ended)) {
        atomic_store(&turn, 1);
        poll_until(0);
        round_trips++;
    }
    return unused;
}

static void *compute(void *unused)
{
    while (!atomic_load(&ended)) {
        for (volatile int i = 0; i < 10000; i++)
            ;
        computed++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    const struct timespec time = { .tv_nsec = 300 * 1000 * 1000 };
    void *(*const work[])(void *) = { answer, ask, compute };
    pthread_t threads[3];
    cpu_set_t all, one;

    int count = argc > 2 && strcmp(argv[2], "alone") == 0 ? 2 : 3;

    yields = argc > 1 && strcmp(argv[1], "yield") == 0;
    if (sched_getaffinity(0, sizeof all, &all))
        return 1;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
        }
    FILE *figures = fopen(getenv("FIGURES"), "w");

    if (!figures || sched_setaffinity(0, sizeof one, &one))
        return 2;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work[i], NULL))
            return 3;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    atomic_store(&ended, true);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    fprintf(figures, "%f\n", round_trips / 0.3);
    if (count == 3)
        fprintf(figures, "%f\n", computed / 0.3);
    fclose(figures);
    puts("0.3 s");
    return 0;
}
