/* Turns on a grid need more CPU time than the quota of the cgroup gives. */
#include "culprit.h"

int main(void)
{
    int64_t period = draw(8, 12) * MS, need = period * draw(45, 60) / 100;
    join_cgroup();
    int64_t before = throttled(0), often = throttled(1), queued = run_delay(), begin = now(), deadline = begin;
    while (now() - begin < 3 * SECOND) {
        work(need);
        deadline += period;
        sleep_until(deadline);
    }
    int64_t end = now(), lost = throttled(0) - before;
    /* The kernel counts a throttled thread as one that waits for a CPU too. */
    int64_t waited = run_delay() - queued - lost;
    tell(end - begin, lost, throttled(1) - often, "\"behind_ns\": %" PRId64 ", \"waited_ns\": %" PRId64 ", \"cgroup\": \"%s\"", end - deadline, waited,
         getenv("CULPRIT_CGROUP"));
}
