/* A thread waits for a lock; its holder waits at a pipe; the process behind it sleeps: that is the root. */
#include "culprit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int asked[2], answered[2];

static void root(void *nothing)
{
    char byte;
    while (read(asked[0], &byte, 1) == 1) {
        sleep_for(draw(8, 20) * MS);
        if (write(answered[1], "y", 1) != 1)
            break;
    }
    (void)nothing;
}

static void *middle(void *nothing)
{
    char byte;
    name("middle");
    for (;;) {
        pthread_mutex_lock(&lock);
        if (write(asked[1], "x", 1) != 1 || read(answered[0], &byte, 1) != 1)
            die("pipe");
        pthread_mutex_unlock(&lock);
        sleep_for(6 * MS);
    }
    return nothing;
}

int main(void)
{
    char named[16];
    int64_t lost = 0, times = 0;
    snprintf(named, sizeof named, "root-%d", (int)draw(10, 99));
    if (pipe(asked) || pipe(answered))
        die("pipe");
    helper(named, root, NULL);
    name("front");
    thread(middle, NULL);
    int64_t begin = now();
    while (now() - begin < 5 * SECOND / 2) {
        sleep_for(2 * MS);
        int64_t at = now();
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        lost += now() - at, times += now() - at > MS;
    }
    tell(now() - begin, lost, times, "\"subject\": \"front\", \"lock\": \"%p\", \"holder\": \"middle\", \"culprit\": \"%s\"", (void *)&lock, named);
    _exit(0);
}
