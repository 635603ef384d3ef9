/* A bare loop around each call by which programs give up the CPU, in slices of about 200 us. Prints nanoseconds per call, the median of
 * the slices, which a few interruptions do not move.
 *
 *     yield_calls METHOD CALLS CPU COMPANY
 *
 * COMPANY 1: a second thread sleeps in the process meanwhile (bare.h).
 */
#define _GNU_SOURCE
#include "bare.h"

#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

static uint32_t word;
static int set;

#define SLICE_NS 200000.0
#define MOST_SLICES 100000

static double costs[MOST_SLICES];
static long slices;

/* Calls in the next slice. */
static long slice(long to_go)
{
    double calls = slices ? SLICE_NS / (costs[slices - 1] > 0.1 ? costs[slices - 1] : 0.1) : 1;
    return calls < 1 ? 1 : calls < to_go ? (long)calls : to_go;
}

static void note(double ns)
{
    if (slices == MOST_SLICES)
        die("more slices than there is room for");
    costs[slices++] = ns;
}

static int sooner(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* One loop for each call, so that nothing else is in it. */
#define LOOP(name, call) \
    if (!strcmp(method, name)) { \
        for (long n; calls > 0; calls -= n) { \
            n = slice(calls); \
            int64_t begin = now(); \
            for (long i = 0; i < n; i++) { \
                call; \
                __asm__ volatile("" : : "r"(i)); \
            } \
            note((double)(now() - begin) / n); \
        } \
    }

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: yield_calls METHOD CALLS CPU COMPANY\n");
        return 2;
    }
    const char *method = argv[1];
    long calls = atol(argv[2]);
    pin(atoi(argv[3]));
    if (atoi(argv[4]))
        have_company();
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
    if (!slices) {
        fprintf(stderr, "no such method, or no calls: %s %s\n", method, argv[2]);
        return 2;
    }
    /* The first are single calls with cold caches. */
    long half = slices / 2;
    qsort(costs + half, slices - half, sizeof *costs, sooner);
    printf("%.3f\n", costs[half + (slices - half) / 2]);
    return 0;
}
