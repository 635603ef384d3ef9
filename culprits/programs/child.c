/* Each turn starts a child and waits for its end; the child sleeps. */
#include "culprit.h"

static void rests(void *nothing)
{
    sleep_for(draw(15, 40) * MS);
    (void)nothing;
}

int main(void)
{
    int64_t lost = 0, times = 0, begin = now();
    char named[16];
    snprintf(named, sizeof named, "errand-%d", (int)draw(10, 99));
    for (; now() - begin < 2 * SECOND; times++) {
        draw(0, 1);
        pid_t child = helper(named, rests, NULL);
        int64_t at = now();
        waitpid(child, NULL, 0);
        lost += now() - at;
        work(2 * MS);
    }
    tell(now() - begin, lost, times, "\"culprit\": \"%s\"", named);
}
