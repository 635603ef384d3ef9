/* The timer slack of the thread, as a parent may leave it behind, delays each of its sleeps. */
#include "culprit.h"

int main(void)
{
    int64_t slack = draw(3, 7) * MS, asked = draw(1, 2) * MS, lost = 0, times = 0;
    if (prctl(PR_SET_TIMERSLACK, slack))
        die("prctl(PR_SET_TIMERSLACK)");
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        sleep_for(asked);
        lost += now() - at - asked;
    }
    tell(now() - begin, lost, times, "\"slack_ns\": %" PRId64 ", \"asked_ns\": %" PRId64, slack, asked);
}
