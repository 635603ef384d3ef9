/* What the C culprits have in common: draws of a seed, clocks, work, helpers that die with the program, and the JSON line of figures. */
#ifndef CULPRIT_H
#define CULPRIT_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

__attribute__((unused)) static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec;
}

static inline int64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline int64_t cpu(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/* The next draw of the seed, between both bounds (splitmix64). */
__attribute__((unused)) static int64_t draw(int64_t low, int64_t high)
{
    static uint64_t state;
    static int begun;
    if (!begun) {
        const char *seed = getenv("CULPRIT_SEED");
        state = seed ? strtoull(seed, NULL, 10) : 1;
        begun = 1;
    }
    uint64_t mixed = (state += UINT64_C(0x9e3779b97f4a7c15));
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return low + (int64_t)((mixed ^ (mixed >> 31)) % (uint64_t)(high - low + 1));
}

/* Computes until the thread has used this much CPU time. */
__attribute__((unused)) static void work(int64_t ns)
{
    volatile uint64_t sum = 0;
    for (int64_t end = cpu() + ns; cpu() < end;)
        for (int step = 0; step < 20000; step++)
            sum += (uint64_t)step * sum + 1;
}

__attribute__((unused)) static void sleep_until(int64_t when)
{
    struct timespec ts = {when / SECOND, when % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

__attribute__((unused)) static void sleep_for(int64_t ns)
{
    struct timespec ts = {ns / SECOND, ns % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        ;
}

__attribute__((unused)) static void name(const char *format, ...)
{
    char text[16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    prctl(PR_SET_NAME, text);
}

/* One of the CPUs that this process may use: the first, the second ... */
__attribute__((unused)) static int nth_cpu(int64_t nth)
{
    static cpu_set_t allowed;
    static int begun;
    if (!begun && sched_getaffinity(0, sizeof allowed, &allowed))
        die("sched_getaffinity");
    begun = 1;
    nth %= CPU_COUNT(&allowed);
    for (int number = 0;; number++)
        if (CPU_ISSET(number, &allowed) && nth-- == 0)
            return number;
}

/* Pins the calling thread. */
__attribute__((unused)) static void pin(int number)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        die("sched_setaffinity");
}

/* A real-time policy of the calling thread. Should it never sleep, the kernel ends it after half a second. */
__attribute__((unused)) static void real_time(int priority)
{
    struct rlimit limit = {500000, 500000};
    struct sched_param parameters = {.sched_priority = priority};
    setrlimit(RLIMIT_RTTIME, &limit);
    if (sched_setscheduler(0, SCHED_FIFO, &parameters))
        die("sched_setscheduler");
}

/* A process of its own, of this name. It ends with the program, or after 12 s. */
__attribute__((unused)) static pid_t helper(const char *named, void (*run)(void *), void *argument)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    prctl(PR_SET_NAME, named);
    alarm(12);
    run(argument);
    _exit(0);
}

__attribute__((unused)) static void computes(void *nothing)
{
    for (;;)
        work(100 * MS);
    (void)nothing;
}

__attribute__((unused)) static pthread_t thread(void *(*run)(void *), void *argument)
{
    pthread_t made;
    if ((errno = pthread_create(&made, NULL, run, argument)))
        die("pthread_create");
    return made;
}

/* Memory that helpers share with the program. */
__attribute__((unused)) static void *shared(size_t size)
{
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        die("mmap");
    return made;
}

/* Moves the process into the cgroup that the driver made for it. */
__attribute__((unused)) static void join_cgroup(void)
{
    const char *folder = getenv("CULPRIT_CGROUP");
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder ? folder : "");
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, "0\n", 2) != 2)
        die(path);
    close(file);
}

/* A figure of a file `KEY VALUE` lines, or -1. */
__attribute__((unused)) static int64_t figure(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    char word[128];
    int64_t value;
    while (file && fscanf(file, "%127s %" SCNd64, word, &value) == 2)
        if (!strcmp(word, key)) {
            fclose(file);
            return value;
        }
    if (file)
        fclose(file);
    return -1;
}

/* How long, or how often, the quota of the driver's cgroup has stopped the process. */
__attribute__((unused)) static int64_t throttled(int times)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/cpu.stat", getenv("CULPRIT_CGROUP"));
    if (times)
        return figure(path, "nr_throttled");
    int64_t ns = figure(path, "throttled_time");
    return ns >= 0 ? ns : figure(path, "throttled_usec") * 1000;
}

/* The time that the calling thread has waited for a CPU. */
__attribute__((unused)) static int64_t run_delay(void)
{
    int64_t ran, waited;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file || fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2)
        die("/proc/thread-self/schedstat");
    fclose(file);
    return waited;
}

/* The program's own figures, as one line of JSON: how long it ran, what the ailment took, how often, how long the calling thread waited for
 * its CPU, and further fields. */
__attribute__((unused, format(printf, 4, 5))) static void tell(int64_t ran, int64_t lost, int64_t times, const char *further, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, further);
    vsnprintf(text, sizeof text, further, arguments);
    va_end(arguments);
    printf("{\"ran_ns\": %" PRId64 ", \"lost_ns\": %" PRId64 ", \"times\": %" PRId64 ", \"queued_ns\": %" PRId64 "%s%s}\n", ran, lost, times,
           run_delay(), *text ? ", " : "", text);
    fflush(stdout);
}

#endif
