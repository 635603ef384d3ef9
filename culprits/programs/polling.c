/* Three threads poll until a fourth has finished its step. All have one CPU, as in a container that is too small. */
#include "culprit.h"
#include <stdatomic.h>

static atomic_long step;
static int64_t need, steps;

static void *poller(void *number)
{
    name("poller-%ld", (long)number);
    while (atomic_load(&step) >= 0)
        ;
    return NULL;
}

int main(void)
{
    need = draw(4, 9) * MS;
    pin(nth_cpu(draw(0, 1)));
    for (long number = 1; number <= 3; number++)
        thread(poller, (void *)number);
    name("worker");
    int64_t waited = run_delay(), begin = now();
    for (; now() - begin < 5 * SECOND / 2; steps++) {
        work(need);
        atomic_fetch_add(&step, 1);
    }
    int64_t lost = run_delay() - waited, end = now();
    tell(end - begin, lost, steps, "\"subject\": \"worker\", \"culprit\": \"poller\"");
    _exit(0);
}
