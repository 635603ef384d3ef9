/* Turns of many cheap system calls. A line of input begins the turns; the figures say for how long it was stopped in them: what the calls
 * took more than their CPU time. */
#include "culprit.h"

#define CALLS 200

static int64_t turn(void)
{
    int64_t used = cpu(), at = now();
    for (int call = 0; call < CALLS; call++)
        syscall(SYS_getppid);
    int64_t took = now() - at;
    return took - (cpu() - used);
}

int main(void)
{
    int64_t lost = 0, times = 0, behind;
    char byte;
    if (read(0, &byte, 1) != 1)
        return 1;
    int64_t period = draw(14, 20) * MS, begin = now(), deadline = begin;
    for (; now() - begin < 2 * SECOND; times += CALLS) {
        lost += turn();
        deadline += period;
        sleep_until(deadline);
    }
    behind = now() - deadline;
    tell(now() - begin, lost, times, "\"behind_ns\": %" PRId64, behind);
}
