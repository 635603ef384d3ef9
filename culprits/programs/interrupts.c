/* Timer interrupts of another program's events (perf_event_open, cpu-clock) stop a computing program thousands of times a second. */
#include "culprit.h"
#include <linux/perf_event.h>

static int place;
static int64_t rate;

static void sampler(void *nothing)
{
    struct perf_event_attr event = {.size = sizeof event, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK,
                                    .sample_type = PERF_SAMPLE_IP, .sample_period = (uint64_t)rate};
    for (int number = 0; number < 3; number++) {
        int events = (int)syscall(SYS_perf_event_open, &event, -1, place, -1, 0);
        if (events < 0 || mmap(NULL, 4096 * 2, PROT_READ | PROT_WRITE, MAP_SHARED, events, 0) == MAP_FAILED)
            _exit(1);
    }
    pause();
    (void)nothing;
}

int main(void)
{
    int64_t lost = 0, times = 0;
    place = nth_cpu(draw(0, 1)), rate = draw(60, 100) * 1000;
    pin(place);
    pid_t child = helper("sampler", sampler, NULL);
    sleep_for(200 * MS);
    if (waitpid(child, NULL, WNOHANG))
        die("perf_event_open");
    int64_t begin = now(), last = begin, waited = run_delay();
    while (last - begin < 2 * SECOND) {
        int64_t next = now();
        if (next - last > 700)
            lost += next - last, times++;
        last = next;
    }
    waited = run_delay() - waited;
    tell(last - begin, lost - waited, times, "\"subject\": \"interrupts\", \"waited_ns\": %" PRId64, waited);
}
