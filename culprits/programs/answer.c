/* Each turn hands a piece of work to a thread of its own by an eventfd, and waits for the answer at another one. Both have one name. */
#include "culprit.h"
#include <sys/eventfd.h>

static int asked, answered;
static int64_t effort;

static void take(int file)
{
    uint64_t count;
    if (read(file, &count, sizeof count) != sizeof count)
        die("read");
}

static void give(int file)
{
    uint64_t one = 1;
    if (write(file, &one, sizeof one) != sizeof one)
        die("write");
}

static void *worker(void *nothing)
{
    for (;;) {
        take(asked);
        work(effort);
        give(answered);
    }
    return nothing;
}

int main(void)
{
    int64_t lost = 0, times = 0, begin = now();
    effort = draw(6, 14) * MS;
    asked = eventfd(0, 0);
    answered = eventfd(0, 0);
    thread(worker, NULL);
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        give(asked);
        take(answered);
        lost += now() - at;
        work(draw(2, 4) * MS);
    }
    tell(now() - begin, lost, times, "\"worker\": %" PRId64, effort);
    _exit(0);
}
