/* Every wait under a filter of system calls that refuses, or punishes, all that the program would not call itself. */
#include "waits.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define US 2000

/* The system calls that a library could make in place of, or beside, the program's own. */
static const struct {
    const char *name;
    int number;
} FOREIGN[] = {
#ifdef SYS_poll
    {"poll", SYS_poll}, {"select", SYS_select}, {"epoll_wait", SYS_epoll_wait}, {"open", SYS_open}, {"readlink", SYS_readlink},
#endif
    {"ppoll", SYS_ppoll}, {"pselect6", SYS_pselect6}, {"epoll_pwait", SYS_epoll_pwait}, {"epoll_pwait2", SYS_epoll_pwait2},
    {"nanosleep", SYS_nanosleep}, {"clock_nanosleep", SYS_clock_nanosleep}, {"sched_yield", SYS_sched_yield}, {"prctl", SYS_prctl},
    {"getrusage", SYS_getrusage}, {"clock_gettime", SYS_clock_gettime}, {"openat", SYS_openat}, {"readlinkat", SYS_readlinkat},
    {"sched_setattr", SYS_sched_setattr}, {"sched_getattr", SYS_sched_getattr}, {"sched_setaffinity", SYS_sched_setaffinity},
    {"sched_getaffinity", SYS_sched_getaffinity}, {"prlimit64", SYS_prlimit64}, {"gettid", SYS_gettid}, {"mmap", SYS_mmap},
    {"sigprocmask", SYS_rt_sigprocmask}, {"sigpending", SYS_rt_sigpending},
};

/* What a filter does, and how it comes to be there. */
struct filter {
    const char *name;
    unsigned action;
    enum { BY_PRCTL, BY_NUMBER, BEFORE_EXEC } how;
};

static const struct filter FILTERS[] = {
    {"EPERM", SECCOMP_RET_ERRNO | EPERM, BY_PRCTL}, {"ENOSYS", SECCOMP_RET_ERRNO | ENOSYS, BY_PRCTL}, {"EACCES", SECCOMP_RET_ERRNO | EACCES, BY_PRCTL},
    {"EPERM by seccomp(2)", SECCOMP_RET_ERRNO | EPERM, BY_NUMBER}, {"ENOSYS by seccomp(2)", SECCOMP_RET_ERRNO | ENOSYS, BY_NUMBER},
    {"EPERM before exec", SECCOMP_RET_ERRNO | EPERM, BEFORE_EXEC}, {"ENOSYS before exec", SECCOMP_RET_ERRNO | ENOSYS, BEFORE_EXEC},
};
static const struct filter KILL_FILTERS[] = {
    {"kill", SECCOMP_RET_KILL_PROCESS, BY_PRCTL}, {"kill by seccomp(2)", SECCOMP_RET_KILL_PROCESS, BY_NUMBER},
    {"kill before exec", SECCOMP_RET_KILL_PROCESS, BEFORE_EXEC},
};

static struct sock_filter code[4 * COUNT(FOREIGN)];
static unsigned short length;

static void append(struct sock_filter step) { code[length++] = step; }

static int is_own(const struct wait *wait, int number) {
    for (size_t n = 0; n < COUNT(wait->own); n++)
        if (wait->own[n] == number && wait->own[n] != 0) return 1;
    return 0;
}

/* The loader, and a thread that begins, make some of them too. */
static int is_of_the_start(int number) {
    static const int OF_THE_START[] = {SYS_openat, SYS_mmap, SYS_prlimit64, SYS_rt_sigprocmask, SYS_readlinkat, SYS_sched_getaffinity,
#ifdef SYS_open
                                       SYS_open, SYS_readlink,
#endif
    };
    for (size_t n = 0; n < COUNT(OF_THE_START); n++)
        if (OF_THE_START[n] == number) return 1;
    return 0;
}

/* Loads a filter of one of them, or of all (-1). */
static void load(const struct wait *wait, const struct filter *filter, int only) {
    append((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t n = 0; n < COUNT(FOREIGN); n++) {
        if (only >= 0 && n != only || is_own(wait, FOREIGN[n].number) || filter->how == BEFORE_EXEC && is_of_the_start(FOREIGN[n].number)) continue;
        append((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FOREIGN[n].number, 0, 1));
        append((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, filter->action));
    }
    append((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {length, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int failed = filter->how == BY_NUMBER ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                                          : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (failed) say(" no filter: errno %d", errno);
}

static void wait_thrice(const struct wait *wait) {
    wait_for(wait, US);
    wait_for(wait, US);
    wait_for(wait, 0);
}

/* The program again, which waits under the filter. */
static void execute(const struct wait *wait, int line) {
    char number[20];
    snprintf(number, sizeof number, "%d", (int)(wait - WAITS));
    dup2(line, 1);
    execl("/proc/self/exe", "conformance", "filtered", number, NULL);
    _exit(127);
}

static void run_executed(const struct wait *wait, const struct filter *filter, int only) {
    int ends[2], status;
    char said[400] = "";
    if (pipe(ends) != 0) abort();
    pid_t process = fork();
    if (process == 0) {
        load(wait, filter, only);
        execute(wait, ends[1]);
    }
    close(ends[1]);
    for (ssize_t got, at = 0; (got = read(ends[0], said + at, sizeof said - 1 - at)) > 0; at += got) continue;
    waitpid(process, &status, 0);
    say("%s status %x", said, status);
}

/* What a program does that was executed under a filter. */
int filtered(const char *number) {
    prepare_waits();
    wait_thrice(&WAITS[atoi(number)]);
    return 0;
}

static void run_filtered(const void *first, const void *second, const void *only) {
    const struct filter *filter = second;
    if (filter->how == BEFORE_EXEC) return run_executed(first, filter, (int)(intptr_t)only);
    prepare_waits();
    load(first, filter, (int)(intptr_t)only);
    wait_thrice(first);
}

/* The waits of before the filter were not. */
static void run_filtered_later(const void *first, const void *second, const void *third) {
    prepare_waits();
    wait_thrice(first);
    load(first, second, -1);
    wait_thrice(first);
}

void add_filters(void) {
    for (size_t n = 0; n < WAITS_COUNT; n++) {
        const struct wait *wait = &WAITS[n];
        for (size_t f = 0; f < COUNT(FILTERS); f++) {
            add("filters", run_filtered, wait, &FILTERS[f], (void *)-1, "%s; filter %s", wait->name, FILTERS[f].name);
            if (FILTERS[f].how != BEFORE_EXEC) add("filters", run_filtered_later, wait, &FILTERS[f], NULL, "%s; filter %s, after waits", wait->name, FILTERS[f].name);
        }
        for (size_t f = 0; f < COUNT(KILL_FILTERS); f++)
            add(KILL_FILTERS[f].how == BEFORE_EXEC ? "inherited" : "kills", run_filtered, wait, &KILL_FILTERS[f], (void *)-1, "%s; filter %s", wait->name, KILL_FILTERS[f].name);
        for (intptr_t only = 0; only < COUNT(FOREIGN); only++)
            if (!is_own(wait, FOREIGN[only].number)) {
                add("kills", run_filtered, wait, &KILL_FILTERS[0], (void *)only, "%s; filter kill of %s", wait->name, FOREIGN[only].name);
                add("kills", run_filtered, wait, &FILTERS[0], (void *)only, "%s; filter EPERM of %s", wait->name, FOREIGN[only].name);
            }
    }
}
