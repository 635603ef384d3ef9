/* Each turn allocates and frees large blocks, which the allocator gives back to the kernel each time: they are cleared at every touch. */
#include "culprit.h"
#include <malloc.h>

int main(void)
{
    size_t size = (size_t)draw(6, 14) << 20;
    int64_t period = draw(12, 18) * MS, times = 0, lost = 0;
    struct rusage before, after;
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    getrusage(RUSAGE_SELF, &before);
    int64_t begin = now(), deadline = begin;
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now(), waited = run_delay();
        char *block = malloc(size);
        for (size_t byte = 0; byte < size; byte += 4096)
            ((volatile char *)block)[byte] = 1;
        free(block);
        lost += now() - at - (run_delay() - waited);
        deadline += period;
        sleep_until(deadline);
    }
    int64_t end = now();
    getrusage(RUSAGE_SELF, &after);
    tell(end - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"faults\": %ld", end - deadline > 0 ? end - deadline : 0,
         after.ru_minflt - before.ru_minflt);
}
