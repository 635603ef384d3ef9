/* Each turn starts a program, which takes long to begin: before it executes, it opens a FIFO that nobody has open yet, or sleeps. */
#include "culprit.h"
#include <spawn.h>
#include <sys/stat.h>

static char fifo[64];

static void opens_now_and_then(void *rest)
{
    for (;;) {
        sleep_for(*(int64_t *)rest);
        int file = open(fifo, O_WRONLY);
        if (file < 0)
            die(fifo);
        close(file);
    }
}

/* As a shell redirects the input of what it starts. */
static pid_t spawned(void)
{
    char *words[] = {"true", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0);
    pid_t child;
    if ((errno = posix_spawn(&child, "/bin/true", &actions, NULL, words, environ)))
        die("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static pid_t forked(int64_t rest)
{
    pid_t child = vfork();
    if (child == 0) {
        sleep_for(rest);
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    return child;
}

int main(void)
{
    int64_t lost = 0, times = 0, rest = draw(10, 30) * MS, redirects = draw(0, 1);
    snprintf(fifo, sizeof fifo, "/tmp/culprit-spawn-%d", (int)getpid());
    if (mkfifo(fifo, 0600))
        die(fifo);
    pid_t opener = redirects ? helper("opener", opens_now_and_then, &rest) : 0;
    int64_t begin = now();
    for (; now() - begin < 2 * SECOND; times++) {
        int64_t at = now();
        pid_t child = redirects ? spawned() : forked(rest);
        lost += now() - at;
        waitpid(child, NULL, 0);
        work(2 * MS);
    }
    int64_t ran = now() - begin;
    if (opener)
        kill(opener, SIGKILL);
    unlink(fifo);
    tell(ran, lost, times, "\"redirects\": %" PRId64, redirects);
}
