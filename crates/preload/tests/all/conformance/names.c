/* Names of threads, their beginning, and system calls by number. */
#include "waits.h"
#include <sys/prctl.h>
#include <sys/resource.h>

static void say_name(void) {
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    say(" named %s", name);
}

struct named {
    const char *name, *value;
};
static const struct named NAMES[] = {{"short", "abc"}, {"empty", ""}, {"15 bytes", "123456789012345"}, {"16 bytes", "1234567890123456"},
                                     {"100 bytes", "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"},
                                     {"bytes of no text", "\xff\xfe\n\x1b"}, {"null", NULL}, {"bad address", (char *)8}};

static const char *placed(const char *name) { return (uintptr_t)name < 4096 ? name : place_for_reading(name, strlen(name) + 1); }

static void run_name(const void *way, const void *second, const void *third) {
    const char *name = placed(((const struct named *)second)->value);
    switch ((intptr_t)way) {
    case 0: CALL(0, pthread_setname_np(pthread_self(), name)); break;
    case 1: CALL(0, prctl(PR_SET_NAME, name)); break;
    default: CALL(0, syscall(SYS_prctl, PR_SET_NAME, name)); break;
    }
    say_name();
}

static void *stay(void *unused) {
    for (;;) pause();
}

static void run_name_of_another(const void *first, const void *second, const void *third) {
    char name[17] = "";
    pthread_t thread = start_helper(stay);
    CALL(0, pthread_setname_np(thread, "another"));
    CALL(0, pthread_getname_np(thread, name, sizeof name));
    say(" %s", name);
    say_name();
}

static const struct {
    const char *name;
    int option;
    unsigned long arguments[4];
} OPTIONS[] = {
    {"PR_GET_DUMPABLE", PR_GET_DUMPABLE}, {"PR_SET_DUMPABLE 0", PR_SET_DUMPABLE, {0}}, {"PR_SET_DUMPABLE 5", PR_SET_DUMPABLE, {5}},
    {"PR_GET_NO_NEW_PRIVS", PR_GET_NO_NEW_PRIVS}, {"PR_GET_NO_NEW_PRIVS 1", PR_GET_NO_NEW_PRIVS, {1}},
    {"PR_SET_NO_NEW_PRIVS 1 0 0 0", PR_SET_NO_NEW_PRIVS, {1, 0, 0, 0}}, {"PR_SET_NO_NEW_PRIVS 1 0 0 7", PR_SET_NO_NEW_PRIVS, {1, 0, 0, 7}},
    {"PR_GET_SECCOMP", PR_GET_SECCOMP}, {"PR_SET_SECCOMP 99", PR_SET_SECCOMP, {99}}, {"PR_SET_SECCOMP bad address", PR_SET_SECCOMP, {2, 8}},
    {"PR_GET_NAME bad address", PR_GET_NAME, {8}}, {"PR_SET_PDEATHSIG 999", PR_SET_PDEATHSIG, {999}}, {"PR_GET_PDEATHSIG bad address", PR_GET_PDEATHSIG, {8}},
    {"an unknown option", 99999, {1, 2, 3, 4}}, {"option -1", -1, {1, 2, 3, 4}},
};

static void run_option(const void *number, const void *by_number, const void *third) {
    const unsigned long *a = OPTIONS[(intptr_t)number].arguments;
    int option = OPTIONS[(intptr_t)number].option;
    if (by_number) CALL(0, syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]));
    else CALL(0, prctl(option, a[0], a[1], a[2], a[3]));
}

/* All six arguments arrive. */
static void run_six(const void *first, const void *second, const void *third) {
    char *memory = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[4095] = 1;
    CALL(0, syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 5));
    CALL(0, syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, 999, 4096));
    CALL(0, syscall(99999, 1, 2, 3, 4, 5, 6));
    CALL(0, syscall(-1));
}

/* Threads. */
static void *return_argument(void *argument) { return argument; }
static void *exit_with_argument(void *argument) { pthread_exit(argument); }
static void *cancel_self(void *argument) {
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return argument;
}
static void *say_mask(void *argument) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    say(" blocked %d errno %d", sigismember(&now, SIGUSR1), errno);
    return argument;
}

static void run_threads(const void *first, const void *second, const void *third) {
    void *(*const starts[])(void *) = {return_argument, exit_with_argument, cancel_self, say_mask};
    for (size_t n = 0; n < COUNT(starts); n++) {
        pthread_t thread;
        void *result = NULL;
        errno = NO_ERROR;
        int failed = pthread_create(&thread, NULL, starts[n], (void *)(n + 5)), error = errno;
        pthread_join(thread, &result);
        say(" %d errno %d", failed, error);
        say(" gives %ld", (long)(intptr_t)result);
    }
    for (int n = 0; n < 200; n++) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, return_argument, &thread) != 0) say(" fails");
        pthread_join(thread, &result);
        if (result != &thread) say(" another argument");
    }
}

static void run_attributes(const void *first, const void *second, const void *third) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CALL(0, pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN));
    CALL(0, pthread_create(&thread, &attributes, return_argument, NULL));
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    CALL(0, pthread_create(&thread, &attributes, stay, NULL));
    CALL(0, pthread_attr_setstacksize(&attributes, 1ul << 46));
    CALL(0, pthread_create(&thread, &attributes, return_argument, NULL));
}

/* Neither more processes nor more memory. */
static void run_refused(const void *first, const void *second, const void *third) {
    struct rlimit none = {0, 0}, little = {1, 1};
    pthread_t thread = 4711;
    if (first) {
        setrlimit(RLIMIT_NPROC, &none);
        if (setuid(65534) != 0) say(" setuid fails");
    } else {
        setrlimit(RLIMIT_AS, &little);
    }
    for (int n = 0; n < 100; n++) {
        int failed = pthread_create(&thread, NULL, return_argument, NULL);
        if (n % 50 == 0) say(" %d errno %d", failed, errno == NO_ERROR ? 0 : errno);
    }
}

void add_names(void) {
    static const char *const WAYS[] = {"pthread_setname_np", "prctl(PR_SET_NAME)", "syscall(SYS_prctl, PR_SET_NAME)"};
    for (intptr_t way = 0; way < 3; way++)
        for (size_t n = 0; n < COUNT(NAMES); n++) add("names", run_name, (void *)way, &NAMES[n], NULL, "%s, %s", WAYS[way], NAMES[n].name);
    add("names", run_name_of_another, NULL, NULL, NULL, "pthread_setname_np of another thread");
    for (intptr_t n = 0; n < COUNT(OPTIONS); n++) {
        add("names", run_option, (void *)n, NULL, NULL, "prctl(%s)", OPTIONS[n].name);
        add("names", run_option, (void *)n, "", NULL, "syscall(SYS_prctl, %s)", OPTIONS[n].name);
    }
    add("names", run_six, NULL, NULL, NULL, "syscall of six arguments, and of no number");
    add("names", run_threads, NULL, NULL, NULL, "pthread_create");
    add("names", run_attributes, NULL, NULL, NULL, "pthread_create, attributes");
    add("names", run_refused, NULL, NULL, NULL, "pthread_create, RLIMIT_AS 1");
    add("names", run_refused, "", NULL, NULL, "pthread_create, RLIMIT_NPROC 0");
}
