/* A program waits for another process: its `pipe`, or its `queue` of messages, is filled by one that sleeps, its `socket` is served by one
 * that computes, or served by one that a third process `starves` of its CPU. */
#include "culprit.h"
#include <mqueue.h>
#include <sys/msg.h>
#include <sys/socket.h>

static int ends[2], place, old_queue;
/* The queue: POSIX, or System V. */
static mqd_t queue = -1;
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

struct message {
    long type;
    char byte;
};

static void sender(void *nothing)
{
    struct message message = {1, 'x'};
    for (;;) {
        sleep_for(effort);
        if (queue >= 0 ? mq_send(queue, "x", 1, 0) : msgsnd(old_queue, &message, 1, 0))
            _exit(0);
    }
    (void)nothing;
}

static void open_queue(void)
{
    struct mq_attr size = {.mq_maxmsg = 4, .mq_msgsize = 1};
    char called[32];
    snprintf(called, sizeof called, "/culprit-%d", (int)getpid());
    if (draw(0, 1)) {
        queue = mq_open(called, O_CREAT | O_EXCL | O_RDWR, 0600, &size);
        mq_unlink(called);
        if (queue < 0)
            die("mq_open");
    } else if ((old_queue = msgget(IPC_PRIVATE, 0600)) < 0) {
        die("msgget");
    }
}

/* Waits for the other process; returns 1 for its byte. */
static long received(int queued)
{
    struct message message;
    char byte;
    if (!queued)
        return read(ends[0], &byte, 1);
    return queue >= 0 ? mq_receive(queue, &byte, 1, NULL) : msgrcv(old_queue, &message, 1, 0, 0);
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
    char named[16], thief[16];
    int64_t lost = 0, times = 0, own = draw(1, 2) * MS;
    kind = count > 1 ? words[1] : "pipe";
    effort = draw(8, 16) * MS, place = nth_cpu(1);
    int by_queue = !strcmp(kind, "queue"), fed = by_queue || !strcmp(kind, "pipe");
    snprintf(named, sizeof named, "%s-%d", fed ? "feeder" : "server", (int)draw(10, 99));
    snprintf(thief, sizeof thief, "thief-%d", (int)draw(10, 99));
    if (by_queue)
        open_queue();
    else if (fed ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        die("pipe");
    queued = shared(sizeof *queued), took = shared(sizeof *took);
    if (!strcmp(kind, "starves")) {
        pin(place);
        helper(thief, wants_it, NULL);
        pin(nth_cpu(0));
    }
    helper(named, by_queue ? sender : fed ? feeder : server, NULL);
    int64_t begin = now(), theirs = *took;
    for (; now() - begin < 5 * SECOND / 2; times++) {
        work(own);
        if (!fed && write(ends[0], "x", 1) != 1)
            die("write");
        int64_t at = now();
        if (received(by_queue) != 1)
            die("read");
        lost += now() - at;
    }
    tell(now() - begin, lost, times,
         "\"peer\": \"%s\", \"culprit\": \"%s\", \"culprit_ns\": %" PRId64 ", \"peer_queued_ns\": %" PRId64, named, thief, *took - theirs,
         *queued);
    if (by_queue && queue < 0)
        msgctl(old_queue, IPC_RMID, NULL);
    _exit(0);
}
