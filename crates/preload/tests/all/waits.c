/* Makes known numbers of calls from functions with names, in the way that its argument says. A volatile counter keeps a loop a loop. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* 20 sleeps of 2 ms, all of which end late. */
__attribute__((noinline)) void sleeps(void) {
    for (volatile int i = 0; i < 20; i++) usleep(2000);
}

/* 130 looks find nothing, and 10 find something. An event ends 3 waits of 1 ms, and 5 last until their time is over. */
__attribute__((noinline)) void polls(void) {
    int ends[2];
    if (pipe(ends)) abort();
    struct pollfd fd = {ends[0], POLLIN, 0};
    for (volatile int i = 0; i < 130; i++) poll(&fd, 1, 0);
    for (volatile int i = 0; i < 5; i++) poll(&fd, 1, 1);
    if (write(ends[1], "x", 1) != 1) abort();
    for (volatile int i = 0; i < 10; i++) poll(&fd, 1, 0);
    for (volatile int i = 0; i < 3; i++) poll(&fd, 1, 1);
}

__attribute__((noinline)) void yields(void) {
    for (volatile int i = 0; i < 200; i++) sched_yield();
}

static void *of_thread(void *unused) {
    usleep(1000);
    return unused;
}

static struct timespec soon(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += 2000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

/* A semaphore: 3 waits of 2 ms, one that finds it posted. Conditions of both clocks: 2 waits of 2 ms each, one whose time is over. */
__attribute__((noinline)) void locks(void) {
    sem_t semaphore;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t realtime = PTHREAD_COND_INITIALIZER, monotonic;
    pthread_condattr_t attributes;
    struct timespec t, long_ago = {1, 0};
    sem_init(&semaphore, 0, 0);
    for (volatile int i = 0; i < 4; i++) {
        if (i == 3) sem_post(&semaphore);
        t = soon(CLOCK_REALTIME);
        sem_timedwait(&semaphore, &t);
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    pthread_mutex_lock(&mutex);
    for (volatile int i = 0; i < 5; i++) {
        t = i < 2 ? soon(CLOCK_REALTIME) : i < 4 ? soon(CLOCK_MONOTONIC) : long_ago;
        pthread_cond_timedwait(i < 2 ? &realtime : &monotonic, &mutex, &t);
    }
    pthread_mutex_unlock(&mutex);
}

/* 3 selects last 1 ms, and 2 look. */
__attribute__((noinline)) void selects(void) {
    struct timeval ms[] = {{0, 1000}, {0, 1000}, {0, 1000}, {0, 0}, {0, 0}};
    for (volatile int i = 0; i < 5; i++) select(0, NULL, NULL, NULL, &ms[i]);
}

/* A mutex of C11: one wait finds it free, 2 last 2 ms. */
__attribute__((noinline)) void mutexes(void) {
    mtx_t mutex;
    mtx_init(&mutex, mtx_timed);
    for (volatile int i = 0; i < 3; i++) {
        struct timespec t = soon(CLOCK_REALTIME);
        mtx_timedlock(&mutex, &t);
    }
}

#define FOUR(x) x x x x
#define MANY(x) FOUR(FOUR(FOUR(FOUR(x)))) FOUR(FOUR(FOUR(FOUR(x)))) FOUR(FOUR(FOUR(FOUR(x))))

/* 768 call sites. */
__attribute__((noinline)) void sites(void) { MANY(poll(NULL, 0, 0);) }

/* The least mean time of a look, a yield, a wait that finds its event, and usleep(0). The blocks are short enough to be
   left alone. */
static void bench(void) {
    struct timespec a, b;
    double least[4] = {1e9, 1e9, 1e9, 1e9};
    int ends[2];
    if (pipe(ends) || write(ends[1], "x", 1) != 1) abort();
    struct pollfd fd = {ends[0], POLLIN, 0};
    for (int block = 0; block < 300; block++) {
        for (int what = 0; what < 4; what++) {
            int calls = what == 3 ? 4 : 640;
            clock_gettime(CLOCK_MONOTONIC, &a);
            for (volatile int i = 0; i < calls; i++)
                if (what == 0) poll(NULL, 0, 0);
                else if (what == 1) sched_yield();
                else if (what == 2) poll(&fd, 1, 1000);
                else usleep(0);
            clock_gettime(CLOCK_MONOTONIC, &b);
            double each = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls;
            if (each < least[what]) least[what] = each;
        }
    }
    printf("%.1f %.1f %.1f %.0f\n", least[0], least[1], least[2], least[3]);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "bench")) return bench(), 0;
    if (!strcmp(way, "sites")) return sites(), 0;
    if (!strcmp(way, "locks")) return locks(), 0;
    if (!strcmp(way, "mutexes")) return mutexes(), 0;
    if (!strcmp(way, "selects")) return selects(), 0;
    if (!strcmp(way, "long")) {
        for (volatile int i = 0; i < 15; i++) sleeps();
        return 0;
    }
    if (!strcmp(way, "threads")) {
        static pthread_t threads[1000];
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        for (int i = 0; i < 1000; i++) if (pthread_create(&threads[i], &small, of_thread, NULL)) abort();
        for (int i = 0; i < 1000; i++) pthread_join(threads[i], NULL);
        return 0;
    }
    sleeps();
    if (!strcmp(way, "_exit")) _exit(3);
    if (!strcmp(way, "kill")) {
        alarm(1);
        raise(SIGKILL);
    }
    if (!strcmp(way, "hang")) {
        puts("ready");
        fflush(stdout);
        sleep(600);
    }
    if (!strcmp(way, "exec")) execl("/proc/self/exe", "second", (char *)NULL);
    if (!strcmp(way, "fork")) {
        for (int i = 0; i < 3; i++)
            if (!fork()) {
                sleeps();
                _exit(0);
            }
        while (wait(NULL) > 0);
    }
    if (!strcmp(way, "vfork")) {
        if (!vfork()) {
            usleep(100);
            _exit(0);
        }
        wait(NULL);
    }
    if (!strcmp(way, "raw")) {
        int word = 1;
        struct timespec ms = {0, 1000000};
        for (int i = 0; i < 4; i++) syscall(SYS_nanosleep, &ms, NULL);
        for (int i = 0; i < 4; i++) syscall(SYS_futex, &word, 0, 1, &ms, NULL, 0);
        syscall(SYS_futex, &word, 0, 2, &ms, NULL, 0);
    }
    polls();
    yields();
    puts("done");
    return 0;
}
