/* A consumer waits at a condition variable for a producer that computes for long. */
#include "culprit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, taken = PTHREAD_COND_INITIALIZER;
static int full;
static int64_t effort;

static void *producer(void *nothing)
{
    name("producer-%d", (int)draw(10, 99));
    for (;;) {
        work(effort);
        pthread_mutex_lock(&lock);
        while (full)
            pthread_cond_wait(&taken, &lock);
        full = 1;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    return nothing;
}

int main(void)
{
    int64_t lost = 0, times = 0;
    effort = draw(6, 14) * MS;
    name("consumer");
    thread(producer, NULL);
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        pthread_mutex_lock(&lock);
        while (!full)
            pthread_cond_wait(&filled, &lock);
        full = 0;
        pthread_cond_signal(&taken);
        pthread_mutex_unlock(&lock);
        lost += now() - at;
        work(draw(1, 2) * MS);
    }
    tell(now() - begin, lost, times, "\"subject\": \"consumer\", \"condition\": \"%p\"", (void *)&filled);
    _exit(0);
}
