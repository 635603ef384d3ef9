/* Three threads take one lock in turn, and each sleeps while it has it. */
#include "culprit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t held;

static void *taker(void *own_name)
{
    name("%s", (const char *)own_name);
    for (;;) {
        pthread_mutex_lock(&lock);
        sleep_for(held);
        pthread_mutex_unlock(&lock);
        sleep_for(MS / 10);
    }
    return NULL;
}

int main(void)
{
    int64_t lost = 0, times = 0, begin = now();
    held = draw(4, 9) * MS;
    thread(taker, "second");
    thread(taker, "third");
    sleep_for(MS);
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        pthread_mutex_lock(&lock);
        lost += now() - at;
        sleep_for(held);
        pthread_mutex_unlock(&lock);
        sleep_for(MS / 10);
    }
    tell(now() - begin, lost, times, "\"held\": %" PRId64, held);
    _exit(0);
}
