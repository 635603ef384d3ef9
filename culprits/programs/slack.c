/* The timer slack of the thread delays each of its sleeps: a large one, as a parent may leave it behind, or the `usual` one of short sleeps. */
#include "culprit.h"

int main(int count, char **words)
{
    int64_t slack = draw(3, 7) * MS, asked = draw(1, 2) * MS, lost = 0, times = 0;
    if (count > 1 && !strcmp(words[1], "usual")) {
        slack = prctl(PR_GET_TIMERSLACK);
        asked = draw(20, 150) * MS / 1000;
    } else if (prctl(PR_SET_TIMERSLACK, slack))
        die("prctl(PR_SET_TIMERSLACK)");
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        sleep_for(asked);
        lost += now() - at - asked;
    }
    tell(now() - begin, lost, times, "\"slack_ns\": %" PRId64 ", \"asked_ns\": %" PRId64, slack, asked);
}
