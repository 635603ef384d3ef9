/* A bare loop around each call by which programs give up the CPU. Prints nanoseconds per call.
 *
 *     yield_calls METHOD CALLS CPU COMPANY
 *
 * COMPANY 1: a second thread sleeps in the process meanwhile. It takes no CPU time, yet calls cost more: the C library makes blocking calls
 * cancellation points in earnest once there are threads, and the kernel counts references to open files atomically once the
 * table of files is shared (fs/file.c, fdget).
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static uint32_t word;
static int set;

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("isb")
#else
#define PAUSE() __asm__ volatile("")
#endif

/* One loop for each call, so that nothing else is in it. */
#define LOOP(name, call) \
    if (!strcmp(method, name)) { \
        begin = now(); \
        for (long i = 0; i < calls; i++) { \
            call; \
            __asm__ volatile("" : : "r"(i)); \
        } \
        end = now(); \
    }

static void *rest(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: yield_calls METHOD CALLS CPU COMPANY\n");
        return 2;
    }
    const char *method = argv[1];
    long calls = atol(argv[2]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[3]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) {
        perror("sched_setaffinity");
        return 1;
    }
    pthread_t company;
    if (atoi(argv[4]) && pthread_create(&company, NULL, rest, NULL)) {
        fprintf(stderr, "no second thread\n");
        return 1;
    }
    int64_t begin = 0, end = -1;
    struct timespec zero = { 0, 0 }, one = { 0, 1 };
    struct epoll_event event;
    set = epoll_create1(0);
    LOOP("nothing", )
    LOOP("nop", __asm__ volatile("nop"))
    LOOP("pause", PAUSE())
    LOOP("sched_yield", sched_yield())
    LOOP("sleep0", sleep(0))
    LOOP("usleep0", usleep(0))
    LOOP("nanosleep0", nanosleep(&zero, NULL))
    LOOP("nanosleep1", nanosleep(&one, NULL))
    LOOP("clock_nanosleep_past", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &one, NULL))
    LOOP("select0", struct timeval none = { 0 }; select(0, NULL, NULL, NULL, &none))
    LOOP("poll0", poll(NULL, 0, 0))
    LOOP("ppoll0", ppoll(NULL, 0, &zero, NULL))
    LOOP("epoll_wait0", epoll_wait(set, &event, 1, 0))
    LOOP("futex_changed", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, word + 1, NULL, NULL, FUTEX_BITSET_MATCH_ANY))
    if (end < 0) {
        fprintf(stderr, "no such method: %s\n", method);
        return 2;
    }
    printf("%.3f\n", (double)(end - begin) / calls);
    return 0;
}
