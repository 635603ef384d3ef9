/* Another process stops this one: by SIGSTOP (`signal`), or through the freezer of its cgroup (`freezer`). */
#include "culprit.h"

struct stops {
    int64_t lost, times, frozen;
    pid_t victim;
    char thaw[4096], state[4096];
};

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        die(path);
    close(file);
}

static void set(struct stops *stops, int stop)
{
    int v2 = strstr(stops->state, "cgroup.freeze") != NULL;
    if (!stops->frozen)
        kill(stops->victim, stop ? SIGSTOP : SIGCONT);
    else
        write_file(stops->state, v2 ? stop ? "1" : "0" : stop ? "FROZEN" : "THAWED");
}

static void stopper(void *argument)
{
    struct stops *stops = argument;
    for (;;) {
        sleep_for(draw(40, 90) * MS);
        int64_t begin = now();
        set(stops, 1);
        sleep_for(draw(20, 60) * MS);
        set(stops, 0);
        stops->lost += now() - begin;
        stops->times++;
    }
}

int main(int count, char **words)
{
    struct stops *stops = shared(sizeof *stops);
    const char *folder = getenv("CULPRIT_CGROUP");
    char named[16];
    snprintf(named, sizeof named, "stopper-%d", (int)draw(10, 99));
    stops->frozen = count > 1 && !strcmp(words[1], "freezer");
    stops->victim = getpid();
    if (stops->frozen) {
        snprintf(stops->state, sizeof stops->state, "%s/freezer.state", folder);
        if (access(stops->state, W_OK))
            snprintf(stops->state, sizeof stops->state, "%s/cgroup.freeze", folder);
    }
    pid_t child = helper(named, stopper, stops);
    if (stops->frozen)
        join_cgroup();
    int64_t begin = now(), deadline = begin, turns = 0;
    while (now() - begin < 3 * SECOND) {
        deadline += 2 * MS;
        sleep_until(deadline);
        turns++;
        if (now() - deadline > 10 * MS)
            deadline = now();
    }
    kill(child, SIGKILL);
    tell(now() - begin, stops->lost, stops->times, "\"turns\": %" PRId64 ", \"culprit\": \"%s\", \"cgroup\": \"%s\"", turns, named,
         folder ? folder : "");
}
