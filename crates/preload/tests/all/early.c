/* Waits, starts a thread and ends before main. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *thread(void *unused) {
    usleep(1);
    return unused;
}

__attribute__((constructor)) static void early(void) {
    pthread_t other;
    sched_yield();
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    puts("early");
    exit(7);
}

int main(void) { return 1; }
