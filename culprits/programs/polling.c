/* Three threads poll until a fourth has finished its step. All have one CPU, as in a container that is too small. */
#include "culprit.h"
#include <stdatomic.h>

static atomic_long step;
static _Atomic int64_t polled;
static int64_t need, steps;

static void *poller(void *number)
{
    name("poller-%ld", (long)number);
    for (int64_t before = cpu(), used; atomic_load(&step) >= 0; before = used) {
        for (int poll = 0; poll < 10000; poll++)
            atomic_load(&step);
        used = cpu();
        atomic_fetch_add(&polled, used - before);
    }
    return NULL;
}

int main(void)
{
    need = draw(4, 9) * MS;
    pin(nth_cpu(draw(0, 1)));
    for (long number = 1; number <= 3; number++)
        thread(poller, (void *)number);
    name("worker");
    int64_t waited = run_delay(), theirs = polled, begin = now();
    for (; now() - begin < 5 * SECOND / 2; steps++) {
        work(need);
        atomic_fetch_add(&step, 1);
    }
    /* Beside other programs, the wait is for them too. */
    int64_t lost = run_delay() - waited, end = now();
    theirs = polled - theirs;
    lost = theirs < lost ? theirs : lost;
    tell(end - begin, lost, steps, "\"subject\": \"worker\", \"culprit\": \"poller\"");
    _exit(0);
}
