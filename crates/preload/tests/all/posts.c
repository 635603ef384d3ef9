/* Posts to a thread that waits with short timeouts. Prints how many posts it took, and how many waits ended early. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#define POSTS 3000

static sem_t semaphore;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *poster(void *unused) {
    for (int i = 0; i < POSTS; i++) {
        struct timespec pause = {0, i % 7 * 20000};
        nanosleep(&pause, NULL);
        sem_post(&semaphore);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    int taken = 0, early = 0;
    sem_init(&semaphore, 0, 0);
    pthread_create(&thread, NULL, poster, NULL);
    for (int i = 0; taken < POSTS; i++) {
        long long limit = now() + i % 11 * 20000;
        struct timespec until = {limit / 1000000000, limit % 1000000000};
        if (sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == 0) taken++;
        else early += errno != ETIMEDOUT || now() < limit;
    }
    pthread_join(thread, NULL);
    printf("%d %d %d\n", taken, early, sem_trywait(&semaphore));
    return 0;
}
