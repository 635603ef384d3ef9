/* Every wait where a signal, a cancellation, a fork or an event meets it, and where there is little room. */
#include "waits.h"
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What happens comes this long after the beginning of a wait, */
#define MEANWHILE_MS 15
/* which is this long if what happens ends it, */
#define LONG_US 400000
/* and this long if not. */
#define SHORT_US 40000
#define US 2000

static const struct wait *now_waiting;

static long length_until(const struct wait *wait, int ends_it) { return ends_it && !wait->resumes ? LONG_US : SHORT_US; }

static void undisturbed(const void *first, const void *us, const void *third) {
    prepare_waits();
    wait_for(first, (intptr_t)us);
    /* What it learned in the first may change the second. */
    wait_for(first, (intptr_t)us);
}

/* A signal while it waits. One that comes before or after is not this row. */
static void signalled(const void *first, const void *flags, const void *third) {
    const struct wait *wait = first;
    prepare_waits();
    for (int attempt = 0; attempt < 50; attempt++) {
        unsay();
        handle_alarm((int)(intptr_t)flags, NULL);
        alarm_in(MEANWHILE_MS);
        wait_for(wait, length_until(wait, 1));
        alarm_in(0);
        if (wait->kind == YIELD || alarms == 1 && !alarm_was_outside) break;
    }
    if (wait->kind != YIELD) say(" signals %d", (int)alarms);
}

/* The same for a wait without end. */
static void signalled_without_end(const void *first, const void *flags, const void *third) {
    const struct wait *wait = first;
    prepare_waits();
    for (int attempt = 0; attempt < 50; attempt++) {
        unsay();
        handle_alarm((int)(intptr_t)flags, NULL);
        alarm_in(MEANWHILE_MS);
        /* Should the signal be too soon, a second one ends it. */
        pid_t process = fork();
        if (process == 0) {
            pause_ms(900);
            kill(getppid(), SIGALRM);
            _exit(0);
        }
        wait_for(wait, -1);
        alarm_in(0);
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
        if (!alarm_was_outside) break;
    }
    say(" signals %d", (int)alarms);
}

static void signalled_but_blocked(const void *first, const void *second, const void *third) {
    sigset_t alarm, none;
    prepare_waits();
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    handle_alarm(0, NULL);
    alarm_in(MEANWHILE_MS);
    wait_for(first, SHORT_US);
    say(" signals %d", (int)alarms);
    while (sigpending(&none) == 0 && !sigismember(&none, SIGALRM)) continue;
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    say(" %d", (int)alarms);
}

static void signalled_but_ignored(const void *first, const void *second, const void *third) {
    prepare_waits();
    signal(SIGALRM, SIG_IGN);
    alarm_in(MEANWHILE_MS);
    wait_for(first, SHORT_US);
}

static void wait_in_handler(void) { wait_for(now_waiting, US); }

/* The handler makes the same call, in the middle of it. */
static void again_in_handler(const void *first, const void *second, const void *third) {
    prepare_waits();
    now_waiting = first;
    for (int attempt = 0; attempt < 50; attempt++) {
        unsay();
        handle_alarm(0, wait_in_handler);
        alarm_in(MEANWHILE_MS);
        wait_for(first, length_until(first, 1));
        if (!alarm_was_outside) break;
    }
}

static sigjmp_buf out;
static void jump(void) { siglongjmp(out, 1); }

/* The handler jumps out of it. */
static void jumped_out(const void *first, const void *second, const void *third) {
    prepare_waits();
    handle_alarm(0, jump);
    if (sigsetjmp(out, 1) == 0) {
        alarm_in(MEANWHILE_MS);
        for (;;) ((const struct wait *)first)->make(SHORT_US);
    }
    wait_for(first, US);
    wait_for(first, US);
}

static void stopped_and_continued(const void *first, const void *second, const void *third) {
    prepare_waits();
    pid_t process = fork();
    if (process == 0) {
        pause_ms(MEANWHILE_MS);
        kill(getppid(), SIGSTOP);
        pause_ms(MEANWHILE_MS);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    wait_for(first, SHORT_US * 2);
    waitpid(process, NULL, 0);
}

/* Cancellation. */
static pthread_t waiting;
static enum { DEFERRED, ASYNCHRONOUS, DISABLED } mode;
static long cancelled_us;

static void *cancel(void *unused) {
    pause_ms(MEANWHILE_MS);
    pthread_cancel(waiting);
    return NULL;
}

/* The outermost thing of the thread: what a wait leaves on the stack is gone by then. */
static void say_cancelled(void *unused) { say(" cancelled"); }

static void *wait_and_be_cancelled(void *pending) {
    int before;
    waiting = pthread_self();
    pthread_cleanup_push(say_cancelled, NULL);
    if (pending) pthread_cancel(waiting);
    else start_helper(cancel);
    if (mode == DISABLED) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (mode == ASYNCHRONOUS) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    wait_for(now_waiting, cancelled_us);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    say(" then");
    for (;;) pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void join(void *(*start)(void *), void *argument) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, start, argument);
    pthread_join(thread, &result);
    say(" %s", result == PTHREAD_CANCELED ? "as cancelled" : "returned");
    /* What the cancelled one left behind does not disturb the next. */
    if (now_waiting->kind != YIELD) wait_for(now_waiting, US);
}

static void cancelled(const void *first, const void *how, const void *third) {
    const struct wait *wait = first;
    prepare_waits();
    now_waiting = first;
    mode = (intptr_t)how;
    /* Whoever is no cancellation point waits until the end. */
    int point = wait->kind == SLEEP || wait->kind == EVENTS || wait->kind == CONDITION || strncmp(wait->name, "sem", 3) == 0;
    cancelled_us = mode == DISABLED || !point || strncmp(wait->name, "syscall", 7) == 0 ? SHORT_US : LONG_US;
    join(wait_and_be_cancelled, NULL);
}

static void cancelled_before(const void *first, const void *us, const void *how) {
    prepare_waits();
    now_waiting = first;
    mode = (intptr_t)how;
    cancelled_us = (intptr_t)us;
    join(wait_and_be_cancelled, (void *)1);
}

/* Processes. */
static void say_status(pid_t process) {
    int status = -1;
    while (waitpid(process, &status, 0) != process) continue;
    say(WIFSIGNALED(status) ? " child killed by %d" : " child exits with %d", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void in_fork(const void *first, const void *second, const void *third) {
    prepare_waits();
    wait_for(first, US);
    pid_t process = fork();
    if (process == 0) {
        wait_for(first, US);
        _exit(0);
    }
    say_status(process);
    wait_for(first, US);
}

static void *wait_long(void *unused) {
    now_waiting->make(SHORT_US);
    return NULL;
}

/* A fork while another thread is in the middle of it. */
static void in_fork_meanwhile(const void *first, const void *second, const void *third) {
    prepare_waits();
    now_waiting = first;
    pthread_t thread = start_helper(wait_long);
    pause_ms(MEANWHILE_MS);
    pid_t process = fork();
    if (process == 0) {
        /* The mutex of a condition belongs to a thread that the child has not. */
        if (now_waiting->kind != CONDITION) wait_for(first, US);
        _exit(0);
    }
    say_status(process);
    pthread_join(thread, NULL);
}

static void in_vfork(const void *first, const void *second, const void *third) {
    prepare_waits();
    wait_for(first, US);
    pid_t process = vfork();
    if (process == 0) {
        wait_for(first, US);
        _exit(3);
    }
    say_status(process);
    wait_for(first, US);
}

/* Little room. */
static void handle_and_wait(int signal) { wait_for(now_waiting, US); }

static void on_a_small_stack(const void *first, const void *second, const void *third) {
    prepare_waits();
    now_waiting = first;
    /* What the kernel needs for the registers, and as much as the smallest stack of a handler used to be. */
    size_t size = (getauxval(AT_MINSIGSTKSZ) + 2048) / 64 * 64;
    size_t page = sysconf(_SC_PAGESIZE), length = (size + page - 1) / page * page;
    char *guard = mmap(NULL, page + length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(guard, page, PROT_NONE);
    /* Not a byte more, so that it shows the same on every CPU. */
    stack_t stack = {.ss_sp = guard + page, .ss_size = size};
    struct sigaction action = {.sa_handler = handle_and_wait, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0) abort();
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void *wait_twice(void *unused) {
    wait_for(now_waiting, US);
    wait_for(now_waiting, 0);
    return NULL;
}

static void in_a_small_thread(const void *first, const void *second, const void *third) {
    pthread_attr_t smallest;
    pthread_t thread;
    prepare_waits();
    now_waiting = first;
    pthread_attr_init(&smallest);
    pthread_attr_setstacksize(&smallest, PTHREAD_STACK_MIN);
    int failed = pthread_create(&thread, &smallest, wait_twice, NULL);
    if (failed) say(" no thread: %d", failed);
    else pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    int resource;
    rlim_t most;
} LIMITS[] = {
    {"RLIMIT_NOFILE 0", RLIMIT_NOFILE, 0}, {"RLIMIT_NOFILE 3", RLIMIT_NOFILE, 3}, {"RLIMIT_AS 1", RLIMIT_AS, 1},
    {"RLIMIT_DATA 1", RLIMIT_DATA, 1}, {"RLIMIT_STACK 1", RLIMIT_STACK, 1}, {"RLIMIT_FSIZE 0", RLIMIT_FSIZE, 0},
    {"RLIMIT_NPROC 0", RLIMIT_NPROC, 0}, {"RLIMIT_MEMLOCK 0", RLIMIT_MEMLOCK, 0}, {"RLIMIT_SIGPENDING 0", RLIMIT_SIGPENDING, 0},
};

static void under_a_limit(const void *first, const void *number, const void *third) {
    prepare_waits();
    struct rlimit limit = {LIMITS[(intptr_t)number].most, LIMITS[(intptr_t)number].most};
    setrlimit(LIMITS[(intptr_t)number].resource, &limit);
    wait_for(first, US);
    wait_for(first, 0);
}

/* Events. */
static void *make_ready_meanwhile(void *unused) {
    pause_ms(MEANWHILE_MS);
    make_ready();
    return NULL;
}

static void becomes_ready(const void *first, const void *second, const void *third) {
    const struct wait *wait = first;
    prepare_waits();
    pthread_t thread = start_helper(make_ready_meanwhile);
    wait_for(wait, wait->kind == SLEEP ? SHORT_US : second ? -1 : LONG_US);
    pthread_join(thread, NULL);
}

static void *wait_in_thread(void *unused) {
    wait_for(now_waiting, US);
    return NULL;
}

static void in_a_named_thread(const void *first, const void *second, const void *third) {
    prepare_waits();
    now_waiting = first;
    pthread_setname_np(pthread_self(), "parent");
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_thread, NULL);
    pthread_setname_np(thread, "child");
    pthread_join(thread, NULL);
    wait_for(first, US);
}

static void add_signals(const struct wait *wait) {
    const char *name = wait->name;
    add("signals", signalled, wait, (void *)0, NULL, "%s; signal", name);
    add("signals", signalled, wait, (void *)SA_RESTART, NULL, "%s; signal, SA_RESTART", name);
    add("signals", signalled_but_blocked, wait, NULL, NULL, "%s; signal, blocked", name);
    add("signals", signalled_but_ignored, wait, NULL, NULL, "%s; signal, ignored", name);
    /* A yield has no middle that an alarm meets. */
    if (wait->kind != YIELD) add("signals", again_in_handler, wait, NULL, NULL, "%s; again in a handler", name);
    /* A mutex of a condition stays locked. */
    if (wait->kind != CONDITION) add("signals", jumped_out, wait, NULL, NULL, "%s; siglongjmp", name);
    add("signals", stopped_and_continued, wait, NULL, NULL, "%s; SIGSTOP and SIGCONT", name);
    if (wait->kind != EVENTS) return;
    add("signals", signalled_without_end, wait, (void *)0, NULL, "%s without end; signal", name);
    /* With SA_RESTART, a futex goes on waiting. */
    if (wait->own[0] != SYS_futex) add("signals", signalled_without_end, wait, (void *)SA_RESTART, NULL, "%s without end; signal, SA_RESTART", name);
}

static void add_cancellations(const struct wait *wait) {
    static const char *const MODES[] = {"", ", asynchronous", ", disabled"};
    for (intptr_t mode = DEFERRED; mode <= DISABLED; mode++) {
        add("cancellation", cancelled, wait, (void *)mode, NULL, "%s; cancelled%s", wait->name, MODES[mode]);
        if (mode == ASYNCHRONOUS) continue;
        add("cancellation", cancelled_before, wait, (void *)US, (void *)mode, "%s; cancelled before%s", wait->name, MODES[mode]);
        add("cancellation", cancelled_before, wait, (void *)0, (void *)mode, "%s of no time; cancelled before%s", wait->name, MODES[mode]);
    }
}

void add_situations(void) {
    for (size_t n = 0; n < WAITS_COUNT; n++) {
        const struct wait *wait = &WAITS[n];
        add("processes", undisturbed, wait, (void *)US, NULL, "%s; undisturbed", wait->name);
        add("processes", undisturbed, wait, (void *)0, NULL, "%s of no time; undisturbed", wait->name);
        add_signals(wait);
        add_cancellations(wait);
        add("processes", in_fork, wait, NULL, NULL, "%s; after fork", wait->name);
        add("processes", in_fork_meanwhile, wait, NULL, NULL, "%s; fork meanwhile", wait->name);
        add("processes", in_vfork, wait, NULL, NULL, "%s; after vfork", wait->name);
        add("room", on_a_small_stack, wait, NULL, NULL, "%s; small alternate stack", wait->name);
        add("room", in_a_small_thread, wait, NULL, NULL, "%s; PTHREAD_STACK_MIN", wait->name);
        for (intptr_t limit = 0; limit < COUNT(LIMITS); limit++)
            add("room", under_a_limit, wait, (void *)limit, NULL, "%s; %s", wait->name, LIMITS[limit].name);
        add("processes", becomes_ready, wait, NULL, NULL, "%s; becomes ready", wait->name);
        if (wait->kind == EVENTS) add("processes", becomes_ready, wait, wait, NULL, "%s without end; becomes ready", wait->name);
        add("processes", in_a_named_thread, wait, NULL, NULL, "%s; named threads", wait->name);
    }
}
