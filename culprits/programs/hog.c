/* Something else wants this program's CPU: `thread` (one of its own, drawn), `process`, `fifo` (a real-time process), or a process beside
 * which this program's own setting has no chance: `nice` (19), `idle` (SCHED_IDLE). */
#include "culprit.h"

static int place, bad;
/* CPU time of the one that wants the CPU. */
static _Atomic int64_t *took;

static void *sibling(void *number)
{
    name("indexer-%ld", (long)number);
    pin(place);
    for (;;)
        if ((long)number == bad)
            work(MS), *took = cpu();
        else
            sleep_for(50 * MS);
    return NULL;
}

static void bursts(void *nothing)
{
    real_time(20);
    for (;;) {
        for (int64_t left = draw(8, 15); left > 0; left--)
            work(MS), *took = cpu();
        sleep_for(draw(20, 30) * MS);
    }
    (void)nothing;
}

static void wants_it(void *nothing)
{
    for (;;)
        work(MS), *took = cpu();
    (void)nothing;
}

int main(int count, char **words)
{
    const char *kind = count > 1 ? words[1] : "process";
    char culprit[16];
    int64_t period = draw(8, 12) * MS, share = draw(75, 85);
    place = nth_cpu(draw(0, 1)), bad = (int)draw(1, 4);
    snprintf(culprit, sizeof culprit, "thief-%d", (int)draw(10, 99));
    pin(place);
    took = shared(sizeof *took);
    if (!strcmp(kind, "thread")) {
        snprintf(culprit, sizeof culprit, "indexer-%d", bad);
        for (long number = 1; number <= 4; number++)
            thread(sibling, (void *)number);
    } else
        helper(culprit, strcmp(kind, "fifo") ? wants_it : bursts, NULL);
    struct sched_param none = {0};
    if (!strcmp(kind, "nice") && setpriority(PRIO_PROCESS, 0, 19))
        die("setpriority");
    if (!strcmp(kind, "idle") && sched_setscheduler(0, SCHED_IDLE, &none))
        die("sched_setscheduler");
    int64_t waited = run_delay(), theirs = *took, begin = now(), deadline = begin, times = 0;
    while (now() - begin < 3 * SECOND) {
        int64_t turn = now(), used = cpu();
        for (int64_t left = period * share / 100; left > 0 && now() - begin < 3 * SECOND; left -= MS)
            work(left < MS ? left : MS);
        times += (now() - turn) - (cpu() - used) > MS;
        deadline += period;
        sleep_until(deadline);
    }
    int64_t lost = run_delay() - waited, end = now();
    theirs = *took - theirs;
    /* Beside other programs, the wait is for them too; where its own policy is why, it is so for all. */
    if (strcmp(kind, "nice") && strcmp(kind, "idle") && theirs < lost)
        lost = theirs;
    tell(end - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"culprit\": \"%s\", \"culprit_ns\": %" PRId64, end - deadline, culprit,
         theirs);
    _exit(0);
}
