/* Runs rows, each in a process of its own, and prints their lines in order.
 *
 *   conformance list            the names
 *   conformance PART...         the rows of these parts ("all": of all)
 *   conformance row NAME...     these rows
 *
 * JOBS is how many run at the same time. */
#include "row.h"
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define LINE 512
#define MOST 8192
/* A row waits for less than a second. */
#define HANGS_NS (20000 * MS)

struct row {
    const char *part, *name;
    run_row *run;
    const void *arguments[3];
    int chosen, status;
    pid_t process;
    long long began_ns;
};

static struct row rows[MOST];
static int count;
/* Shared with the processes of the rows. */
static char (*lines)[LINE];
static char *line;

void add(const char *part, run_row *run, const void *first, const void *second, const void *third, const char *name, ...) {
    va_list arguments;
    char *text;
    va_start(arguments, name);
    if (vasprintf(&text, name, arguments) < 0 || count == MOST) abort();
    va_end(arguments);
    rows[count++] = (struct row){.part = part, .name = text, .run = run, .arguments = {first, second, third}};
}

void say(const char *format, ...) {
    size_t length = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + length, LINE - length, format, arguments);
    va_end(arguments);
}

void unsay(void) { *line = 0; }

long long time_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

struct timespec timespec_of(long long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

/* The row's memory: pages, and what they held before the call. */
static struct {
    unsigned char *page, *before;
    size_t size, rest_size;
} places[16];
static int places_taken;
static size_t page_size;

void *place(const void *data, size_t size) {
    size_t length = (size + page_size - 1) / page_size * page_size;
    unsigned char *page = mmap(NULL, length + page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page + length, page_size, PROT_NONE) != 0) abort();
    memset(page, 0xa5, length);
    memcpy(page + length - size, data, size);
    places[places_taken].page = page;
    places[places_taken].size = length;
    places[places_taken++].before = memcpy(malloc(length), page, length);
    return page + length - size;
}

void *place_for_reading(const void *data, size_t size) {
    void *copy = place(data, size);
    if (mprotect(places[places_taken - 1].page, places[places_taken - 1].size, PROT_READ) != 0) abort();
    return copy;
}

void *place_for_rest(const void *data, size_t size) {
    void *copy = place(data, size);
    places[places_taken - 1].rest_size = size;
    return copy;
}

/* What became of a time that a call may write to: its words are seconds, and ns or us. */
static void say_rest(const void *now, const void *before, size_t size) {
    long left[2];
    memcpy(left, now, sizeof left);
    int kept = memcmp(now, before, size) == 0, none = left[0] == 0 && left[1] == 0;
    int valid = left[0] >= 0 && left[1] >= 0 && left[1] < 1000000000;
    say(" rest %s", kept ? "kept" : none ? "none" : valid ? "some" : "invalid");
}

/* Which bytes the call changed. */
static void say_memory(void) {
    for (int n = 0; n < places_taken; n++) {
        size_t fixed = places[n].size - places[n].rest_size, changed = 0, first = 0;
        const unsigned char *now = places[n].page, *before = places[n].before;
        uint64_t digest = 14695981039346656037u;
        if (places[n].rest_size > 0) say_rest(now + fixed, before + fixed, places[n].rest_size);
        for (size_t i = 0; i < fixed; i++) {
            if (now[i] == before[i]) continue;
            if (changed++ == 0) first = places[n].size - i;
            digest = (digest ^ now[i] ^ i << 8) * 1099511628211u;
        }
        if (changed) say(" place %d: %zu changed, from %zu before its end, to %08x", n, changed, first, (unsigned)(digest ^ digest >> 32));
    }
}

volatile sig_atomic_t alarms, alarm_was_outside;
static void (*alarm_also)(void);
extern char __executable_start, etext;

static int in_program(void *context) {
#if defined(__x86_64__)
    uintptr_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    uintptr_t at = ((ucontext_t *)context)->uc_mcontext.pc;
#else
    uintptr_t at = 0;
#endif
    return at >= (uintptr_t)&__executable_start && at < (uintptr_t)&etext;
}

static void on_alarm(int number, siginfo_t *about, void *context) {
    alarms++;
    if (in_program(context)) alarm_was_outside = 1;
    if (alarm_also) alarm_also();
}

void handle_alarm(int flags, void (*also)(void)) {
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | flags};
    alarm_also = also;
    alarms = alarm_was_outside = 0;
    sigaction(SIGALRM, &action, NULL);
}

void alarm_in(int ms) {
    struct itimerval timer = {.it_value = {0, ms * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

void block_signals(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void start(struct row *row) {
    line = lines[row - rows];
    row->began_ns = time_of(CLOCK_MONOTONIC);
    row->process = fork();
    if (row->process < 0) abort();
    if (row->process > 0) return;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    row->run(row->arguments[0], row->arguments[1], row->arguments[2]);
    say_memory();
    _exit(0);
}

/* Collects rows that ended; kills those that hang. */
static int collect(void) {
    int status, ended = 0;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int n = 0; n < count; n++)
            if (rows[n].process == process) rows[n].process = 0, rows[n].status = status, ended++;
    for (int n = 0; n < count; n++)
        if (rows[n].process > 0 && time_of(CLOCK_MONOTONIC) - rows[n].began_ns > HANGS_NS) kill(rows[n].process, SIGKILL);
    return ended;
}

static void run_all(int jobs) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    struct timespec second = {1, 0};
    int next = 0, running = 0;
    for (;;) {
        while (next < count && !rows[next].chosen) next++;
        if (next == count && running == 0) return;
        if (next < count && running < jobs) {
            start(&rows[next++]);
            running++;
        } else {
            sigtimedwait(&child, NULL, &second);
        }
        running -= collect();
    }
}

static void print(const struct row *row, const char *line) {
    printf("%s:%s", row->name, line);
    if (WIFSIGNALED(row->status)) printf(WTERMSIG(row->status) == SIGKILL ? " HANGS" : " killed by %d", WTERMSIG(row->status));
    else if (WEXITSTATUS(row->status) != 0) printf(" exits with %d", WEXITSTATUS(row->status));
    printf("\n");
}

static int choose(int wanted, char **words) {
    int by_name = strcmp(words[0], "row") == 0, chosen = 0;
    for (int n = 0; n < count; n++)
        for (int w = by_name; w < wanted; w++) {
            int is = strcmp(words[w], by_name ? rows[n].name : rows[n].part) == 0;
            if (is || !by_name && strcmp(words[w], "all") == 0) chosen += !rows[n].chosen, rows[n].chosen = 1;
        }
    return chosen;
}

/* The row of another process, which reads it. */
static int run_filtered(const char *number) {
    static char own[LINE];
    line = own;
    int status = filtered(number);
    if (write(1, own, strlen(own)) < 0) return 1;
    return status;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "filtered") == 0) return run_filtered(argv[2]);
    page_size = sysconf(_SC_PAGESIZE);
    add_sleeps();
    add_events();
    add_locks();
    add_names();
    add_situations();
    add_filters();
    if (argc < 2) return 2;
    if (strcmp(argv[1], "list") == 0) {
        for (int n = 0; n < count; n++) printf("%s\t%s\n", rows[n].part, rows[n].name);
        return 0;
    }
    lines = mmap(NULL, sizeof *lines * MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (choose(argc - 1, argv + 1) == 0) return 2;
    run_all(getenv("JOBS") ? atoi(getenv("JOBS")) : 32);
    for (int n = 0; n < count; n++)
        if (rows[n].chosen) print(&rows[n], lines[n]);
    return 0;
}
