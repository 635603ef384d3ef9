#include "waits.h"
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int ends[2], asks[2], epoll;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, condition_mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, steady_condition;
static mtx_t c11_mutex, c11_condition_mutex;
static cnd_t c11_condition;
static unsigned word;
static sem_t locked;

void pause_ms(int ms) {
    /* No library that takes the place of functions has this one. */
    struct timespec length = {0, ms * 1000000};
    sigset_t none;
    sigemptyset(&none);
    sigtimedwait(&none, NULL, &length);
}

pthread_t start_helper(void *(*helper)(void *)) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&thread, NULL, helper, NULL) != 0) abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return thread;
}

/* Holds the locks until it is asked. */
static void *hold(void *unused) {
    char asked;
    pthread_mutex_lock(&mutex);
    mtx_lock(&c11_mutex);
    sem_post(&locked);
    if (read(asks[0], &asked, 1) != 1) abort();
    pthread_mutex_unlock(&mutex);
    mtx_unlock(&c11_mutex);
    for (;;) pause();
}

void prepare_waits(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5};
    pthread_mutexattr_t checks;
    pthread_condattr_t steady;
    if (pipe(ends) != 0 || pipe(asks) != 0 || (epoll = epoll_create1(0)) < 0) abort();
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    sem_init(&semaphore, 0, 0);
    sem_init(&locked, 0, 0);
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&condition_mutex, &checks);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&steady_condition, &steady);
    mtx_init(&c11_mutex, mtx_timed);
    mtx_init(&c11_condition_mutex, mtx_plain | mtx_recursive);
    cnd_init(&c11_condition);
    start_helper(hold);
    while (sem_wait(&locked) != 0) continue;
}

void make_ready(void) {
    if (write(ends[1], "x", 1) != 1 || write(asks[1], "x", 1) != 1) abort();
    sem_post(&semaphore);
    pthread_mutex_lock(&condition_mutex);
    pthread_cond_broadcast(&condition);
    pthread_cond_broadcast(&steady_condition);
    pthread_mutex_unlock(&condition_mutex);
    mtx_lock(&c11_condition_mutex);
    cnd_broadcast(&c11_condition);
    mtx_unlock(&c11_condition_mutex);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* A length, and a time of a clock. */
#define LENGTH(us) struct timespec length = timespec_of((us) * 1000LL)
#define UNTIL(us, clock) struct timespec until = timespec_of(time_of(clock) + ((us) < 0 ? 3600000 * MS : (us) * 1000LL))
#define WAIT(name, ...) static long name(long us) { __VA_ARGS__; }

WAIT(w_nanosleep, LENGTH(us); return nanosleep(&length, NULL))
WAIT(w_clock_nanosleep, LENGTH(us); return clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL))
WAIT(w_clock_nanosleep_real, LENGTH(us); return clock_nanosleep(CLOCK_REALTIME, 0, &length, NULL))
WAIT(w_clock_nanosleep_until, UNTIL(us, CLOCK_MONOTONIC); return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
WAIT(w_clock_nanosleep_boot, UNTIL(us, CLOCK_BOOTTIME); return clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL))
WAIT(w_usleep, return usleep(us))
WAIT(w_thrd_sleep, LENGTH(us); return thrd_sleep(&length, NULL))
WAIT(w_syscall_nanosleep, LENGTH(us); return syscall(SYS_nanosleep, &length, NULL))
WAIT(w_syscall_clock_nanosleep, LENGTH(us); return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &length, NULL))

WAIT(w_sched_yield, return sched_yield())
WAIT(w_pthread_yield, return pthread_yield())
WAIT(w_thrd_yield, thrd_yield(); return 0)
WAIT(w_syscall_sched_yield, return syscall(SYS_sched_yield))

#define FD struct pollfd fd = {ends[0], POLLIN, 0}
#define SET fd_set set; FD_ZERO(&set); FD_SET(ends[0], &set)
#define MS_OF(us) ((us) < 0 ? -1 : (us) / 1000)
WAIT(w_poll, FD; return poll(&fd, 1, MS_OF(us)))
WAIT(w_poll_nothing, return poll(NULL, 0, MS_OF(us)))
WAIT(w_ppoll, FD; LENGTH(us); return ppoll(&fd, 1, us < 0 ? NULL : &length, NULL))
WAIT(w_select, SET; struct timeval length = {us / 1000000, us % 1000000}; return select(ends[0] + 1, &set, NULL, NULL, us < 0 ? NULL : &length))
WAIT(w_pselect, SET; LENGTH(us); return pselect(ends[0] + 1, &set, NULL, NULL, us < 0 ? NULL : &length, NULL))
#define EVENT struct epoll_event event
WAIT(w_epoll_wait, EVENT; return epoll_wait(epoll, &event, 1, MS_OF(us)))
WAIT(w_epoll_pwait, EVENT; return epoll_pwait(epoll, &event, 1, MS_OF(us), NULL))
WAIT(w_epoll_pwait2, EVENT; LENGTH(us); return epoll_pwait2(epoll, &event, 1, us < 0 ? NULL : &length, NULL))

WAIT(w_sem_timedwait, UNTIL(us, CLOCK_REALTIME); return sem_timedwait(&semaphore, &until))
WAIT(w_sem_clockwait, UNTIL(us, CLOCK_MONOTONIC); return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until))
WAIT(w_mutex_timedlock, UNTIL(us, CLOCK_REALTIME); return pthread_mutex_timedlock(&mutex, &until))
WAIT(w_mutex_clocklock, UNTIL(us, CLOCK_MONOTONIC); return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until))
WAIT(w_mtx_timedlock, UNTIL(us, CLOCK_REALTIME); return mtx_timedlock(&c11_mutex, &until))
WAIT(w_futex, LENGTH(us); return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, us < 0 ? NULL : &length, NULL, 0))
WAIT(w_futex_bitset, UNTIL(us, CLOCK_MONOTONIC);
     return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, us < 0 ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY))

/* A wait for a condition, with its mutex. A cancelled one has locked it again. */
static void unlock(void *unused) { say(" unlock %d", pthread_mutex_unlock(&condition_mutex)); }
static void unlock_c11(void *unused) { say(" unlock %d", mtx_unlock(&c11_condition_mutex)); }
#define ON_CONDITION(lock, unlock, wait)                                                                               \
    long done;                                                                                                         \
    lock;                                                                                                              \
    pthread_cleanup_push(unlock, NULL);                                                                                \
    done = wait;                                                                                                       \
    pthread_cleanup_pop(0);                                                                                            \
    unlock(NULL);                                                                                                      \
    return done
#define POSIX(wait) ON_CONDITION(pthread_mutex_lock(&condition_mutex), unlock, wait)
WAIT(w_cond_timedwait, UNTIL(us, CLOCK_REALTIME); POSIX(pthread_cond_timedwait(&condition, &condition_mutex, &until)))
WAIT(w_cond_timedwait_steady, UNTIL(us, CLOCK_MONOTONIC); POSIX(pthread_cond_timedwait(&steady_condition, &condition_mutex, &until)))
WAIT(w_cond_clockwait, UNTIL(us, CLOCK_MONOTONIC); POSIX(pthread_cond_clockwait(&condition, &condition_mutex, CLOCK_MONOTONIC, &until)))
WAIT(w_cnd_timedwait, UNTIL(us, CLOCK_REALTIME);
     ON_CONDITION(mtx_lock(&c11_condition_mutex), unlock_c11, cnd_timedwait(&c11_condition, &c11_condition_mutex, &until)))

#ifdef SYS_poll
#define OWN_POLL SYS_poll
#define OWN_SELECT SYS_select
#define OWN_EPOLL SYS_epoll_wait
#else
#define OWN_POLL SYS_ppoll
#define OWN_SELECT SYS_pselect6
#define OWN_EPOLL SYS_epoll_pwait
#endif

const struct wait WAITS[] = {
    {"nanosleep", w_nanosleep, SLEEP, 0, {SYS_clock_nanosleep, SYS_nanosleep}},
    {"clock_nanosleep", w_clock_nanosleep, SLEEP, 0, {SYS_clock_nanosleep}},
    {"clock_nanosleep CLOCK_REALTIME", w_clock_nanosleep_real, SLEEP, 0, {SYS_clock_nanosleep}},
    {"clock_nanosleep TIMER_ABSTIME", w_clock_nanosleep_until, SLEEP, 0, {SYS_clock_nanosleep}},
    {"clock_nanosleep CLOCK_BOOTTIME TIMER_ABSTIME", w_clock_nanosleep_boot, SLEEP, 0, {SYS_clock_nanosleep}},
    {"usleep", w_usleep, SLEEP, 0, {SYS_clock_nanosleep, SYS_nanosleep}},
    {"thrd_sleep", w_thrd_sleep, SLEEP, 0, {SYS_clock_nanosleep}},
    {"syscall(SYS_nanosleep)", w_syscall_nanosleep, SLEEP, 0, {SYS_nanosleep}},
    {"syscall(SYS_clock_nanosleep)", w_syscall_clock_nanosleep, SLEEP, 0, {SYS_clock_nanosleep}},
    {"sched_yield", w_sched_yield, YIELD, 0, {SYS_sched_yield}},
    {"pthread_yield", w_pthread_yield, YIELD, 0, {SYS_sched_yield}},
    {"thrd_yield", w_thrd_yield, YIELD, 0, {SYS_sched_yield}},
    {"syscall(SYS_sched_yield)", w_syscall_sched_yield, YIELD, 0, {SYS_sched_yield}},
    {"poll", w_poll, EVENTS, 0, {OWN_POLL}},
    {"poll of nothing", w_poll_nothing, SLEEP, 0, {OWN_POLL}},
    {"ppoll", w_ppoll, EVENTS, 0, {SYS_ppoll}},
    {"select", w_select, EVENTS, 0, {OWN_SELECT, SYS_pselect6}},
    {"pselect", w_pselect, EVENTS, 0, {SYS_pselect6}},
    {"epoll_wait", w_epoll_wait, EVENTS, 0, {OWN_EPOLL}},
    {"epoll_pwait", w_epoll_pwait, EVENTS, 0, {SYS_epoll_pwait}},
    {"epoll_pwait2", w_epoll_pwait2, EVENTS, 0, {SYS_epoll_pwait2}},
    {"sem_timedwait", w_sem_timedwait, LOCK, 0, {SYS_futex}},
    {"sem_clockwait", w_sem_clockwait, LOCK, 0, {SYS_futex}},
    {"pthread_mutex_timedlock", w_mutex_timedlock, LOCK, 1, {SYS_futex}},
    {"pthread_mutex_clocklock", w_mutex_clocklock, LOCK, 1, {SYS_futex}},
    {"mtx_timedlock", w_mtx_timedlock, LOCK, 1, {SYS_futex}},
    {"syscall(SYS_futex, FUTEX_WAIT)", w_futex, EVENTS, 0, {SYS_futex}},
    {"syscall(SYS_futex, FUTEX_WAIT_BITSET)", w_futex_bitset, EVENTS, 0, {SYS_futex}},
    {"pthread_cond_timedwait", w_cond_timedwait, CONDITION, 1, {SYS_futex}},
    {"pthread_cond_timedwait CLOCK_MONOTONIC", w_cond_timedwait_steady, CONDITION, 1, {SYS_futex}},
    {"pthread_cond_clockwait", w_cond_clockwait, CONDITION, 1, {SYS_futex}},
    {"cnd_timedwait", w_cnd_timedwait, CONDITION, 1, {SYS_futex}},
};
const size_t WAITS_COUNT = COUNT(WAITS);

void wait_for(const struct wait *wait, long us) {
    long long began_ns = time_of(CLOCK_MONOTONIC);
    errno = NO_ERROR;
    long done = wait->make(us);
    int error = errno, by_result = wait->kind == SLEEP || wait->kind == EVENTS && wait->own[0] != SYS_futex;
    int over = by_result ? done == 0 : done == ETIMEDOUT || done == thrd_timedout || done == -1 && error == ETIMEDOUT;
    say(" %ld errno %d%s", done, error, over && time_of(CLOCK_MONOTONIC) - began_ns < us * 1000LL ? " EARLY" : "");
}
