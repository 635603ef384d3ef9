/* Makes every call that the library has, with good and bad input, and prints what must not depend on it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Prints what a call returned, errno, and whether it lasted as long as it had to. */
#define SAY(name, least_ns, call)                                                                                      \
    do {                                                                                                               \
        errno = 77;                                                                                                    \
        long long began = now();                                                                                       \
        long done = (long)(call);                                                                                      \
        int error = errno;                                                                                             \
        printf("%s: %ld %d %s\n", name, done, error, now() - began >= (least_ns) ? "in time" : "EARLY");               \
    } while (0)

static void nothing(int signal) { (void)signal; }

/* Again and again: on a busy machine, the first may come before the call. 0: no more. */
static void alarm_every_us(int us) {
    struct itimerval timer = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

#define SAY_INTERRUPTED(name, call)                                                                                    \
    do {                                                                                                               \
        alarm_every_us(3000);                                                                                          \
        SAY(name, 0, call);                                                                                            \
        alarm_every_us(0);                                                                                             \
    } while (0)

static jmp_buf place;
static void jump(int signal) {
    (void)signal;
    siglongjmp(place, 1);
}

static void *cancelled(void *unused) {
    struct timespec hour = {3600, 0};
    (void)unused;
    nanosleep(&hour, NULL);
    return NULL;
}

static atomic_uint word = 1;
static void *waker(void *unused) {
    (void)unused;
    usleep(3000);
    atomic_store(&word, 2);
    syscall(SYS_futex, &word, 1 /* FUTEX_WAKE */, 1, 0, 0, 0);
    return NULL;
}

static void sleeps(void) {
    struct timespec none = {0, 0}, ms = {0, 1000000}, bad = {0, 1000000000}, negative = {-1, 0}, rest;
    SAY("nanosleep", 1000000, nanosleep(&ms, NULL));
    SAY("nanosleep 0", 0, nanosleep(&none, NULL));
    SAY("nanosleep invalid", 0, nanosleep(&bad, &rest));
    SAY("nanosleep negative", 0, nanosleep(&negative, NULL));
    SAY("clock_nanosleep", 1000000, clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL));
    SAY("clock_nanosleep wall", 1000000, clock_nanosleep(CLOCK_REALTIME, 0, &ms, NULL));
    SAY("clock_nanosleep past", 0, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ms, NULL));
    SAY("clock_nanosleep invalid", 0, clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL));
    SAY("clock_nanosleep no clock", 0, clock_nanosleep(99, 0, &ms, NULL));
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (until.tv_nsec + 2000000) / 1000000000;
    until.tv_nsec = (until.tv_nsec + 2000000) % 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    printf("until: %s\n", now() >= until.tv_sec * 1000000000LL + until.tv_nsec ? "in time" : "EARLY");
    SAY("usleep", 500000, usleep(500));
    SAY("usleep 0", 0, usleep(0));
    SAY("sleep 0", 0, sleep(0));
    SAY("thrd_sleep", 1000000, thrd_sleep(&ms, NULL));
    SAY("syscall nanosleep", 1000000, syscall(SYS_nanosleep, &ms, NULL));
    SAY("syscall clock_nanosleep", 1000000, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ms, NULL));
    SAY("syscall clock_nanosleep invalid", 0, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &bad, NULL));
    SAY("syscall getpid", 0, syscall(SYS_getpid) == getpid());
    SAY("syscall unknown", 0, syscall(99999));
}

static void yields(void) {
    for (int i = 0; i < 1000; i++) {
        if (sched_yield() != 0) printf("sched_yield failed\n");
    }
    SAY("sched_yield", 0, sched_yield());
    SAY("thrd_yield", 0, (thrd_yield(), 0));
    SAY("syscall sched_yield", 0, syscall(SYS_sched_yield));
}

static void limits(void) {
    int ends[2];
    if (pipe(ends) != 0) return;
    struct pollfd fd = {ends[0], POLLIN, 0};
    struct timespec ms = {0, 1000000}, bad = {0, -1};
    SAY("poll 0", 0, poll(&fd, 1, 0));
    SAY("poll", 2000000, poll(&fd, 1, 2));
    SAY("poll nothing", 1000000, poll(NULL, 0, 1));
    SAY("poll bad address", 0, poll((struct pollfd *)8, 1, 1));
    SAY("ppoll", 1000000, ppoll(&fd, 1, &ms, NULL));
    SAY("ppoll invalid", 0, ppoll(&fd, 1, &bad, NULL));
    fd_set set, empty;
    FD_ZERO(&set);
    FD_ZERO(&empty);
    FD_SET(ends[0], &set);
    struct timeval limit = {0, 2000};
    SAY("select", 2000000, select(ends[0] + 1, &set, NULL, NULL, &limit));
    printf("select left: %ld %ld, empties: %d\n", (long)limit.tv_sec, (long)limit.tv_usec, !memcmp(&set, &empty, sizeof set));
    SAY("pselect", 1000000, pselect(0, NULL, NULL, NULL, &ms, NULL));
    SAY("pselect invalid", 0, pselect(0, NULL, NULL, NULL, &bad, NULL));
    SAY("select bad count", 0, select(-1, NULL, NULL, NULL, NULL));
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = 5}, found = {0};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    SAY("epoll_wait", 2000000, epoll_wait(epoll, &found, 1, 2));
    SAY("epoll_wait no room", 0, epoll_wait(epoll, &found, 0, 2));
    SAY("epoll_wait no epoll", 0, epoll_wait(ends[0], &found, 1, 2));
    SAY("epoll_pwait", 2000000, epoll_pwait(epoll, &found, 1, 2, NULL));
    if (write(ends[1], "x", 1) != 1) return;
    FD_SET(ends[0], &set);
    struct timeval hour = {3600, 0};
    SAY("poll ready", 0, poll(&fd, 1, -1));
    printf("poll events: %d\n", fd.revents);
    SAY("epoll_wait ready", 0, epoll_wait(epoll, &found, 1, -1));
    printf("epoll event: %d\n", found.data.fd);
    SAY("select ready", 0, select(ends[0] + 1, &set, NULL, NULL, &hour));
    printf("select set: %d, left an hour: %d\n", FD_ISSET(ends[0], &set), hour.tv_sec >= 3590);
}

/* What is left of an interrupted sleep of `second`, and the time that it took, are not less than it. */
static int is_whole(struct timespec second, struct timespec begin, struct timespec end, struct timespec rest) {
    return second.tv_sec * 1000000000LL + second.tv_nsec <=
           (rest.tv_sec + end.tv_sec - begin.tv_sec) * 1000000000LL + rest.tv_nsec + end.tv_nsec - begin.tv_nsec;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    struct timespec second = {1000, 0}, rest = {0, 0}, begin, end;
    int done;
#define TIMED(call) (clock_gettime(CLOCK_MONOTONIC, &begin), done = (call), clock_gettime(CLOCK_MONOTONIC, &end), done)
    SAY_INTERRUPTED("nanosleep interrupted", TIMED(nanosleep(&second, &rest)));
    printf("rest: %d %d\n", rest.tv_sec >= 900, is_whole(second, begin, end, rest));
    SAY_INTERRUPTED("clock_nanosleep interrupted", TIMED(clock_nanosleep(CLOCK_MONOTONIC, 0, &second, &rest)));
    printf("rest: %d %d\n", rest.tv_sec >= 900, is_whole(second, begin, end, rest));
    SAY_INTERRUPTED("usleep interrupted", usleep(900000000));
    SAY_INTERRUPTED("sleep interrupted", sleep(1000) >= 900);
    SAY_INTERRUPTED("thrd_sleep interrupted", thrd_sleep(&second, NULL));
    SAY_INTERRUPTED("poll interrupted", poll(NULL, 0, 100000));
    struct timeval limit = {1000, 0};
    SAY_INTERRUPTED("select interrupted", select(0, NULL, NULL, NULL, &limit));
    printf("left: %d\n", limit.tv_sec >= 900);
    action.sa_handler = jump;
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 3; i++) {
        if (sigsetjmp(place, 1) == 0) {
            alarm_every_us(2000);
            for (;;) nanosleep(&second, NULL);
        }
        alarm_every_us(0);
    }
    struct timespec ms = {0, 1000000};
    SAY("nanosleep after jumps", 1000000, nanosleep(&ms, NULL));
}

static void threads(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, cancelled, NULL);
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    pthread_create(&thread, NULL, waker, NULL);
    while (atomic_load(&word) == 1) syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 1, NULL, 0, 0);
    pthread_join(thread, NULL);
    struct timespec ms = {0, 1000000};
    SAY("futex changed", 0, syscall(SYS_futex, &word, 0, 1, NULL, 0, 0));
    SAY("futex timeout", 1000000, syscall(SYS_futex, &word, 0, 2, &ms, 0, 0));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(1000);
        sched_yield();
        _exit(poll(NULL, 0, 1));
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    child = vfork();
    if (child == 0) {
        usleep(1000);
        _exit(3);
    }
    waitpid(child, &status, 0);
    printf("child: %d\n", WEXITSTATUS(status));
}

/* The same for a call with an absolute limit. */
#define SAY_UNTIL(name, clock, us, call)                                                                               \
    do {                                                                                                               \
        until = in_us(clock, us);                                                                                      \
        errno = 77;                                                                                                    \
        long done = (long)(call);                                                                                      \
        int error = errno;                                                                                             \
        struct timespec over = in_us(clock, 0);                                                                        \
        int early = over.tv_sec < until.tv_sec || (over.tv_sec == until.tv_sec && over.tv_nsec < until.tv_nsec);       \
        printf("%s: %ld %d %s\n", name, done, error, early ? "EARLY" : "in time");                                     \
    } while (0)

/* The time of a clock in so many us. */
static struct timespec in_us(clockid_t clock, long us) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += us * 1000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;

static void *poster(void *unused) {
    usleep(2000);
    sem_post(&semaphore);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *waits(void *unused) {
    struct timespec hour = in_us(CLOCK_MONOTONIC, 3600000000L);
    sem_clockwait(&semaphore, CLOCK_MONOTONIC, &hour);
    return unused;
}

static void *holder(void *unused) {
    struct timespec until;
    mtx_t *other = unused;
    SAY_UNTIL("mutex timeout", CLOCK_REALTIME, 1500, pthread_mutex_timedlock(&mutex, &until));
    SAY_UNTIL("mutex clock timeout", CLOCK_MONOTONIC, 1500, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until));
    SAY_UNTIL("mtx timeout", CLOCK_REALTIME, 1500, mtx_timedlock(other, &until));
    return NULL;
}

static void *takes_when_cancelled(void *clock) {
    struct timespec until = in_us(CLOCK_REALTIME, 3600000000L);
    pthread_cancel(pthread_self());
    return (void *)(long)(clock ? sem_clockwait(&semaphore, CLOCK_REALTIME, &until) : sem_timedwait(&semaphore, &until));
}

static void posts(void) {
    struct timespec until, bad = {0, -1}, past = {1, 0};
    pthread_t thread;
    void *result;
    mtx_t other;
    cnd_t signal;
    sem_init(&semaphore, 0, 1);
    mtx_init(&other, mtx_timed);
    cnd_init(&signal);
    SAY("sem free", 0, sem_timedwait(&semaphore, &past));
    SAY("sem past", 0, sem_timedwait(&semaphore, &past));
    SAY("sem invalid", 0, sem_timedwait(&semaphore, &bad));
    SAY("sem no clock", 0, sem_clockwait(&semaphore, 99, &past));
    SAY_UNTIL("sem timeout", CLOCK_REALTIME, 2000, sem_timedwait(&semaphore, &until));
    SAY_UNTIL("sem clock timeout", CLOCK_MONOTONIC, 2000, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until));
    pthread_create(&thread, NULL, poster, NULL);
    until = in_us(CLOCK_REALTIME, 3600000000L);
    SAY("sem posted", 0, sem_timedwait(&semaphore, &until));
    pthread_mutex_lock(&mutex);
    while (!ready) pthread_cond_timedwait(&condition, &mutex, &until);
    SAY_UNTIL("cond timeout", CLOCK_REALTIME, 2000, pthread_cond_timedwait(&condition, &mutex, &until));
    SAY_UNTIL("cond clock timeout", CLOCK_MONOTONIC, 2000, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until));
    pthread_join(thread, NULL);
    mtx_lock(&other);
    SAY_UNTIL("cnd timeout", CLOCK_REALTIME, 2000, cnd_timedwait(&signal, &other, &until));
    pthread_create(&thread, NULL, holder, &other);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&mutex);
    mtx_unlock(&other);
    SAY("mutex free", 0, pthread_mutex_timedlock(&mutex, &past));
    SAY("mtx free", 0, mtx_timedlock(&other, &past));
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    until = in_us(CLOCK_REALTIME, 3600000000L);
    SAY_INTERRUPTED("sem interrupted", sem_timedwait(&semaphore, &until));
    pthread_create(&thread, NULL, waits, NULL);
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("sem cancelled: %d\n", result == PTHREAD_CANCELED);
    for (int clock = 0; clock < 2; clock++) {
        int value;
        sem_init(&semaphore, 0, 1);
        pthread_create(&thread, NULL, takes_when_cancelled, clock ? &clock : NULL);
        pthread_join(thread, &result);
        sem_getvalue(&semaphore, &value);
        printf("free sem cancelled: %d, left %d\n", result == PTHREAD_CANCELED, value);
    }
}

int main(void) {
    sleeps();
    yields();
    limits();
    signals();
    threads();
    posts();
    return 5;
}
