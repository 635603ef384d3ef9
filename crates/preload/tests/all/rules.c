/* Says which calls slept instead of yielding, and how threads with names are scheduled. The library's path is the argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 40
#define LOOP __attribute__((noinline)) void

/* A yield gives up the CPU too, but the thread stays runnable: only sleeps are voluntary. A sleep of 1 ns may be over before it begins. */
static void say(const char *name, void (*loop)(int)) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    loop(CALLS);
    getrusage(RUSAGE_THREAD, &after);
    printf("%s: %s\n", name, after.ru_nvcsw - before.ru_nvcsw > CALLS / 2 ? "slept" : "yielded");
}

LOOP first_loop(int calls) {
    for (int i = 0; i < calls; i++) sched_yield();
}
LOOP second_loop(int calls) {
    for (int i = 0; i < calls; i++) sched_yield();
}
static LOOP hidden_loop(int calls) {
    for (int i = 0; i < calls; i++) syscall(SYS_sched_yield);
}

/* The policy, the number of CPUs, and the slack of this thread. */
static void scheduling(const char *when) {
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    printf("%s: policy %d cpus %d slack %d\n", when, sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, CPU_COUNT(&cpus), prctl(PR_GET_TIMERSLACK));
}

static void *child(void *unused) {
    scheduling("its child");
    pthread_setname_np(pthread_self(), "child");
    scheduling("its child, renamed");
    return unused;
}

static pthread_barrier_t named;
static void *thread(void *unused) {
    scheduling("before");
    pthread_setname_np(pthread_self(), "audio-1");
    scheduling("named");
    say("thread", first_loop);
    pthread_t other;
    pthread_create(&other, NULL, child, NULL);
    pthread_join(other, NULL);
    prctl(PR_SET_NAME, "idle", 0, 0, 0);
    scheduling("renamed");
    say("thread renamed", first_loop);
    pthread_barrier_wait(&named);
    /* The main thread names it now. */
    pthread_barrier_wait(&named);
    sched_yield();
    scheduling("named by another");
    return unused;
}

int main(int count, char **words) {
    (void)count;
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) return puts(dlerror()), 1;
    say("first", first_loop);
    say("second", second_loop);
    say("hidden", hidden_loop);
    say("library", (void (*)(int))dlsym(library, "library_loop"));
    pthread_t other;
    pthread_barrier_init(&named, NULL, 2);
    pthread_create(&other, NULL, thread, NULL);
    pthread_barrier_wait(&named);
    pthread_setname_np(other, "audio-2");
    pthread_barrier_wait(&named);
    pthread_join(other, NULL);
    struct rlimit limit;
    getrlimit(RLIMIT_RTTIME, &limit);
    printf("limit %lld\n", (long long)limit.rlim_cur);
    return 0;
}
