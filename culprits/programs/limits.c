/* Turns of a real-time thread need more CPU time than a limit gives: `rt` (the cgroup's real-time limit) or `deadline` (its own budget). */
#include "culprit.h"

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

int main(int count, char **words)
{
    int64_t period, need;
    if (count > 1 && !strcmp(words[1], "rt")) {
        period = draw(90, 120) * MS, need = draw(40, 55) * MS;
        join_cgroup();
        struct sched_param parameters = {.sched_priority = 10};
        if (sched_setscheduler(0, SCHED_FIFO, &parameters))
            die("sched_setscheduler");
    } else {
        period = draw(16, 24) * MS, need = draw(7, 9) * MS;
        struct attributes deadline = {.size = sizeof deadline, .policy = 6, .runtime = 4 * MS, .deadline = period, .period = period};
        if (syscall(SYS_sched_setattr, 0, &deadline, 0))
            die("sched_setattr");
    }
    int64_t lost = 0, times = 0, begin = now(), deadline = begin;
    while (now() - begin < 3 * SECOND) {
        int64_t turn = now(), used = cpu();
        work(need);
        int64_t gone = (now() - turn) - (cpu() - used);
        lost += gone;
        times += gone > MS;
        deadline += period;
        sleep_until(deadline);
    }
    int64_t end = now();
    const char *folder = getenv("CULPRIT_CGROUP");
    tell(end - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"cgroup\": \"%s\"", end - deadline, folder ? folder : "");
}
