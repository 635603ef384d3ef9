/* A thread takes four locks in each turn. The holder of one of them, drawn, keeps it for long: it `computes`, `sleeps`, `writes` to the
 * disk, or is itself `kept` from its CPU. */
#include "culprit.h"

static pthread_mutex_t locks[4] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                   PTHREAD_MUTEX_INITIALIZER};
static const char *kind;
static int bad, journal;
static int64_t keep;

static void hold(void)
{
    static char block[4096];
    if (!strcmp(kind, "sleeps"))
        return sleep_for(keep);
    if (!strcmp(kind, "computes"))
        return work(keep);
    if (!strcmp(kind, "kept"))
        return work(keep / 10);
    for (int64_t begin = now(); now() - begin < keep;)
        if (write(journal, block, sizeof block) != sizeof block || fdatasync(journal))
            die("journal");
}

static void *holder(void *number)
{
    long mine = (long)number;
    struct sched_param none = {0};
    name("holder-%ld", mine);
    if (mine == bad && !strcmp(kind, "kept")) {
        pin(nth_cpu(1));
        if (sched_setscheduler(0, SCHED_IDLE, &none))
            die("sched_setscheduler");
    }
    for (;;) {
        pthread_mutex_lock(&locks[mine]);
        if (mine == bad)
            hold();
        pthread_mutex_unlock(&locks[mine]);
        sleep_for(mine == bad ? keep / 2 : 5 * MS);
    }
    return NULL;
}

int main(int count, char **words)
{
    int64_t lost = 0, times = 0, period = 4 * MS;
    char culprit[16];
    kind = count > 1 ? words[1] : "computes";
    bad = (int)draw(0, 3), keep = draw(15, 30) * MS;
    snprintf(culprit, sizeof culprit, "thief-%d", (int)draw(10, 99));
    if (!strcmp(kind, "kept")) {
        pin(nth_cpu(1));
        helper(culprit, computes, NULL);
        pin(nth_cpu(0));
    }
    journal = open("journal", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long number = 0; number < 4; number++)
        thread(holder, (void *)number);
    name("taker");
    int64_t begin = now(), deadline = begin;
    while (now() - begin < 3 * SECOND) {
        for (int number = 0; number < 4; number++) {
            int64_t at = now();
            pthread_mutex_lock(&locks[number]);
            pthread_mutex_unlock(&locks[number]);
            if (number == bad)
                lost += now() - at, times += now() - at > MS;
        }
        deadline += period;
        sleep_until(deadline);
    }
    int64_t end = now();
    unlink("journal");
    tell(end - begin, lost, times, "\"behind_ns\": %" PRId64 ", \"subject\": \"taker\", \"lock\": \"%p\", \"holder\": \"holder-%d\", \"culprit\": \"%s\"",
         end - deadline, (void *)&locks[bad], bad, culprit);
    _exit(0);
}
