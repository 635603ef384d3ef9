/* What the bare C programs have in common. _GNU_SOURCE is defined before it is included. */
#ifndef BARE_H
#define BARE_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The processor's spin hint, as its manuals advise for loops that wait for memory to change. */
#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("isb")
#else
#define PAUSE() __asm__ volatile("")
#endif

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline int64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static inline void pin(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        die("sched_setaffinity");
}

static inline void *rest(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

/* Starts a second thread, which sleeps and to which no signal goes. It takes no CPU time, yet calls cost more. The C library makes
 * blocking calls cancellation points in earnest once there are threads. The kernel counts references to open files atomically once
 * the table of files is shared (fs/file.c, fdget). */
static inline void have_company(void)
{
    sigset_t all, before;
    pthread_t company;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&company, NULL, rest, NULL))
        die("pthread_create");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
