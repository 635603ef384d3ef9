/* Turns on a grid: `late` ones compute longer than their period, `on-time` ones much shorter. */
#include "culprit.h"

int main(int count, char **words)
{
    int late = count > 1 && !strcmp(words[1], "late");
    int64_t period = draw(8, 12) * MS, need = late ? period * draw(130, 150) / 100 : period / 20, lost = 0, times = 0, latest = 0;
    int64_t begin = now(), deadline = begin, queued = run_delay();
    while (now() - begin < 5 * SECOND / 2) {
        int64_t used = cpu();
        work(need);
        if (late)
            lost += cpu() - used, times++;
        deadline += period;
        if (now() - deadline > latest)
            latest = now() - deadline;
        sleep_until(deadline);
    }
    int64_t end = now();
    tell(end - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"latest_ns\": %" PRId64 ", \"waited_ns\": %" PRId64,
         end - deadline > 0 ? end - deadline : 0, latest, run_delay() - queued);
}
