/* A program waits for another process: its `pipe` is filled by one that sleeps, its `socket` is served by one that computes, or served by
 * one that a third process `starves` of its CPU. */
#include "culprit.h"
#include <sys/socket.h>

static int ends[2], place;
static int64_t effort;
static const char *kind;
/* What the server waited for its CPU, and the CPU time of the thief. */
static _Atomic int64_t *queued, *took;

static void wants_it(void *nothing)
{
    for (;;)
        work(MS), *took = cpu();
    (void)nothing;
}

static void feeder(void *nothing)
{
    for (;;) {
        sleep_for(effort);
        if (write(ends[1], "x", 1) != 1)
            _exit(0);
    }
    (void)nothing;
}

static void server(void *nothing)
{
    char byte;
    struct sched_param none = {0};
    if (!strcmp(kind, "starves")) {
        pin(place);
        if (sched_setscheduler(0, SCHED_IDLE, &none))
            _exit(1);
    }
    while (read(ends[1], &byte, 1) == 1) {
        work(strcmp(kind, "starves") ? effort : effort / 50);
        *queued = run_delay();
        if (write(ends[1], "y", 1) != 1)
            break;
    }
    (void)nothing;
}

int main(int count, char **words)
{
    char named[16], thief[16], byte;
    int64_t lost = 0, times = 0, own = draw(1, 2) * MS;
    kind = count > 1 ? words[1] : "pipe";
    effort = draw(8, 16) * MS, place = nth_cpu(1);
    int piped = !strcmp(kind, "pipe");
    snprintf(named, sizeof named, "%s-%d", piped ? "feeder" : "server", (int)draw(10, 99));
    snprintf(thief, sizeof thief, "thief-%d", (int)draw(10, 99));
    if (piped ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        die("pipe");
    queued = shared(sizeof *queued), took = shared(sizeof *took);
    if (!strcmp(kind, "starves")) {
        pin(place);
        helper(thief, wants_it, NULL);
        pin(nth_cpu(0));
    }
    helper(named, piped ? feeder : server, NULL);
    int64_t begin = now(), theirs = *took;
    for (; now() - begin < 5 * SECOND / 2; times++) {
        work(own);
        if (!piped && write(ends[0], "x", 1) != 1)
            die("write");
        int64_t at = now();
        if (read(ends[0], &byte, 1) != 1)
            die("read");
        lost += now() - at;
    }
    tell(now() - begin, lost, times,
         "\"peer\": \"%s\", \"culprit\": \"%s\", \"culprit_ns\": %" PRId64 ", \"peer_queued_ns\": %" PRId64, named, thief, *took - theirs,
         *queued);
    _exit(0);
}
