/* A writer waits for a lock that readers have, one after the other without a gap. All threads have the name of the program. */
#include "culprit.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int64_t held, until;

static void *reader(void *nothing)
{
    while (now() < until) {
        pthread_rwlock_rdlock(&lock);
        sleep_for(held);
        pthread_rwlock_unlock(&lock);
    }
    return nothing;
}

int main(void)
{
    int64_t begin = now();
    held = draw(5, 12) * MS;
    until = begin + draw(1500, 2200) * MS;
    for (int n = 0; n < 3; n++) {
        thread(reader, NULL);
        sleep_for(held / 3);
    }
    int64_t at = now();
    pthread_rwlock_wrlock(&lock);
    int64_t lost = now() - at;
    work(30 * MS);
    pthread_rwlock_unlock(&lock);
    tell(now() - begin, lost, 1, "\"held\": %" PRId64, held);
    _exit(0);
}
