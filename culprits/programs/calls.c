/* Turns of many cheap system calls. A line of input begins the turns; the figures say what a call costs more than before it. */
#include "culprit.h"

#define CALLS 200

static int64_t turn(void)
{
    int64_t at = now();
    for (int call = 0; call < CALLS; call++)
        syscall(SYS_getppid);
    return now() - at;
}

int main(void)
{
    int64_t bare = SECOND, lost = 0, times = 0, behind;
    char byte;
    for (int number = 0; number < 50; number++) {
        int64_t took = turn();
        bare = took < bare ? took : bare;
    }
    if (read(0, &byte, 1) != 1)
        return 1;
    int64_t period = draw(14, 20) * MS, begin = now(), deadline = begin;
    for (; now() - begin < 2 * SECOND; times += CALLS) {
        lost += turn() - bare;
        deadline += period;
        sleep_until(deadline);
    }
    behind = now() - deadline;
    tell(now() - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"bare_ns\": %" PRId64, behind, bare);
}
