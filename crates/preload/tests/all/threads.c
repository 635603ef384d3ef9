/* A thousand threads with the smallest stacks, each with a name of its own, and calls from each. Prints how many ran to
   their end. */
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 1000

static atomic_int ended;
static sem_t all;

static void *thread(void *number) {
    char name[16];
    struct timespec until;
    snprintf(name, sizeof name, "thread-%d", (int)(long)number);
    pthread_setname_np(pthread_self(), name);
    usleep(0);
    sched_yield();
    poll(NULL, 0, 1);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3600;
    sem_timedwait(&all, &until);
    atomic_fetch_add(&ended, 1);
    return number;
}

int main(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    sem_init(&all, 0, 0);
    for (long i = 0; i < THREADS; i++) {
        int failed = pthread_create(&threads[i], &attributes, thread, (void *)i);
        if (failed) return printf("thread %ld: %d\n", i, failed), 1;
    }
    for (int i = 0; i < THREADS; i++) sem_post(&all);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if ((long)result != i) return printf("thread %d returned %ld\n", i, (long)result), 1;
    }
    printf("%d\n", ended);
    return 0;
}
