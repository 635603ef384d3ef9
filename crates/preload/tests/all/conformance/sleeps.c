/* Sleeps and yields, with every length. */
#include "waits.h"
#include <sched.h>

static const struct {
    const char *name;
    clockid_t clock;
} CLOCKS[] = {
    {"CLOCK_REALTIME", CLOCK_REALTIME}, {"CLOCK_MONOTONIC", CLOCK_MONOTONIC},
    {"CLOCK_BOOTTIME", CLOCK_BOOTTIME}, {"CLOCK_TAI", CLOCK_TAI},
    {"CLOCK_PROCESS_CPUTIME_ID", CLOCK_PROCESS_CPUTIME_ID}, {"CLOCK_THREAD_CPUTIME_ID", CLOCK_THREAD_CPUTIME_ID},
    {"CLOCK_MONOTONIC_RAW", CLOCK_MONOTONIC_RAW}, {"CLOCK_REALTIME_COARSE", CLOCK_REALTIME_COARSE},
    {"clock 99", 99}, {"clock -1", -1},
};

/* A sleep of a length, or until a time of a clock. */
struct sleep {
    const char *name;
    long (*make)(clockid_t clock, const struct timespec *asked, struct timespec *rest);
    int of_a_clock, until;
};

static long make_nanosleep(clockid_t clock, const struct timespec *asked, struct timespec *rest) { return nanosleep(asked, rest); }
static long make_thrd_sleep(clockid_t clock, const struct timespec *asked, struct timespec *rest) { return thrd_sleep(asked, rest); }
static long make_by_number(clockid_t clock, const struct timespec *asked, struct timespec *rest) {
    return syscall(SYS_nanosleep, asked, rest);
}
static long make_clock(clockid_t clock, const struct timespec *asked, struct timespec *rest) {
    return clock_nanosleep(clock, 0, asked, rest);
}
static long make_clock_by_number(clockid_t clock, const struct timespec *asked, struct timespec *rest) {
    return syscall(SYS_clock_nanosleep, clock, 0, asked, rest);
}
static long make_until(clockid_t clock, const struct timespec *asked, struct timespec *rest) {
    return clock_nanosleep(clock, TIMER_ABSTIME, asked, rest);
}
static long make_until_by_number(clockid_t clock, const struct timespec *asked, struct timespec *rest) {
    return syscall(SYS_clock_nanosleep, clock, TIMER_ABSTIME, asked, rest);
}

static const struct sleep SLEEPS[] = {
    {"nanosleep", make_nanosleep},
    {"thrd_sleep", make_thrd_sleep},
    {"syscall(SYS_nanosleep)", make_by_number},
    {"clock_nanosleep", make_clock, 1},
    {"syscall(SYS_clock_nanosleep)", make_clock_by_number, 1},
    {"clock_nanosleep(TIMER_ABSTIME)", make_until, 1, 1},
    {"syscall(SYS_clock_nanosleep, TIMER_ABSTIME)", make_until_by_number, 1, 1},
};

enum form { PLACED, FOR_READING, NOWHERE, BAD_ADDRESS };

/* A length, and where it stands. A sleep until a time adds it to the present one, unless it is out of range. */
struct length {
    const char *name;
    struct timespec length;
    enum form form;
    int endless, kept;
};

static const struct length LENGTHS[] = {
    {"0", {0, 0}}, {"1 ns", {0, 1}}, {"1 us", {0, 1000}}, {"1001 ns", {0, 1001}}, {"1 ms", {0, 1000000}},
    {"1 ms, read-only", {0, 1000000}, FOR_READING}, {"0, read-only", {0, 0}, FOR_READING},
    {"long over", {1, 0}, PLACED, 1, 1},
    {"tv_sec -1", {-1, 0}, PLACED, 0, 1}, {"tv_nsec -1", {0, -1}, PLACED, 0, 1}, {"tv_nsec 10^9", {0, 1000000000}, PLACED, 0, 1},
    {"tv_sec and tv_nsec invalid", {-5, 2000000000}, PLACED, 0, 1},
    {"an hour", {3600, 0}, PLACED, 1}, {"10^17 s", {100000000000000000, 0}, PLACED, 1, 1},
    {"most", {INT64_MAX, 999999999}, PLACED, 1, 1},
    {"null", {0, 0}, NOWHERE}, {"bad address", {0, 0}, BAD_ADDRESS},
};

static const struct {
    const char *name;
    enum form form;
} RESTS[] = {{"no rest", NOWHERE}, {"rest", PLACED}, {"rest read-only", FOR_READING}, {"rest at a bad address", BAD_ADDRESS}};

/* Something in the form that a row asks for. */
static void *formed(enum form form, const void *data, size_t size) {
    switch (form) {
    case PLACED: return place(data, size);
    case FOR_READING: return place_for_reading(data, size);
    case NOWHERE: return NULL;
    default: return (void *)8;
    }
}

/* Uses CPU time, which some sleeps wait for. */
static void *burn(void *unused) {
    for (;;) continue;
}

static void run_sleep(const void *first, const void *second, const void *third) {
    const struct sleep *sleep = first;
    const struct length *length = second;
    int clock_and_rest = (int)(intptr_t)third;
    clockid_t clock = CLOCKS[clock_and_rest / 4].clock;
    enum form rest_form = RESTS[clock_and_rest % 4].form;
    struct timespec asked = length->length, rest = {4711, 4712};
    long long least_ns = length->endless || length->form != PLACED && length->form != FOR_READING || length->kept
                             ? 0 : asked.tv_sec * 1000 * MS + asked.tv_nsec;
    if (sleep->until && !length->kept) asked = timespec_of(time_of(clock) + asked.tv_sec * 1000 * MS + asked.tv_nsec);
    const struct timespec *asked_at = formed(length->form, &asked, sizeof asked);
    struct timespec *rest_at = rest_form == PLACED ? place_for_rest(&rest, sizeof rest) : formed(rest_form, &rest, sizeof rest);
    if (clock == CLOCK_PROCESS_CPUTIME_ID) start_helper(burn);
    /* Not every row's time ends; an alarm in the middle of a short one would make two outcomes. */
    handle_alarm(0, NULL);
    if (length->endless) alarm_in(10);
    int measured = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
    long long began_ns = time_of(CLOCK_MONOTONIC);
    errno = NO_ERROR;
    long done = sleep->make(clock, asked_at, rest_at);
    int error = errno, early = measured && done == 0 && !sleep->until && time_of(CLOCK_MONOTONIC) - began_ns < least_ns;
    early |= measured && done == 0 && sleep->until && !length->kept && time_of(clock) < asked.tv_sec * 1000 * MS + asked.tv_nsec;
    say(" %ld errno %d%s", done, error, early ? " EARLY" : "");
}

static void run_usleep(const void *us, const void *second, const void *third) {
    handle_alarm(0, NULL);
    if ((intptr_t)us > 1000000) alarm_in(10);
    CALL((intptr_t)us > 1000000 ? 0 : (intptr_t)us * 1000LL, usleep((intptr_t)us));
}

static void run_sleep_seconds(const void *seconds, const void *second, const void *third) {
    handle_alarm(0, NULL);
    if (seconds) alarm_in(10);
    /* What is left is rounded to a second. */
    CALL(0, sleep((uintptr_t)seconds) / 2 * 2);
}

static void run_flags(const void *flags, const void *second, const void *third) {
    struct timespec ms = {0, 1000000};
    int number = (int)(intptr_t)flags;
    CALL(0, clock_nanosleep(CLOCK_MONOTONIC, number, place(&ms, sizeof ms), NULL));
    CALL(0, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, number, place(&ms, sizeof ms), NULL));
}

static void run_yields(const void *first, const void *second, const void *third) {
    /* The first ones, and those after which a loop that backs off sleeps. */
    for (int n = 0; n < 600; n++) {
        errno = NO_ERROR;
        if (sched_yield() != 0 || errno != NO_ERROR || syscall(SYS_sched_yield) != 0 || errno != NO_ERROR) say(" fails");
        thrd_yield();
        if (pthread_yield() != 0 || errno != NO_ERROR) say(" fails");
    }
    say(" done");
}

static void run_zeros(const void *first, const void *second, const void *third) {
    struct timespec none = {0, 0}, rest = {4711, 4712};
    for (int n = 0; n < 400; n++) {
        errno = NO_ERROR;
        if (usleep(0) != 0 || nanosleep(&none, &rest) != 0 || clock_nanosleep(CLOCK_MONOTONIC, 0, &none, &rest) != 0) say(" fails");
        if (errno != NO_ERROR || rest.tv_sec != 4711 || rest.tv_nsec != 4712) say(" changes");
    }
    say(" done");
}

static void add_sleep(const struct sleep *sleep, const struct length *length) {
    for (size_t clock = 0; clock < (sleep->of_a_clock ? COUNT(CLOCKS) : 1); clock++) {
        /* Other clocks than the first two have less to differ in. */
        int rests = clock < 2 && (length->endless || length->form == PLACED && length->length.tv_nsec == 0) ? 4 : 1;
        for (int rest = 0; rest < rests; rest++)
            add("sleeps", run_sleep, sleep, length, (void *)(intptr_t)(clock * 4 + rest), "%s%s%s, %s, %s", sleep->name,
                sleep->of_a_clock ? " " : "", sleep->of_a_clock ? CLOCKS[clock].name : "", length->name, RESTS[rest].name);
    }
}

void add_sleeps(void) {
    for (size_t sleep = 0; sleep < COUNT(SLEEPS); sleep++)
        for (size_t length = 0; length < COUNT(LENGTHS); length++) add_sleep(&SLEEPS[sleep], &LENGTHS[length]);
    static const unsigned US[] = {0, 1, 2, 1000, 1000000000, UINT32_MAX};
    for (size_t n = 0; n < COUNT(US); n++) add("sleeps", run_usleep, (void *)(intptr_t)US[n], NULL, NULL, "usleep %u us", US[n]);
    static const unsigned SECONDS[] = {0, 3600, UINT32_MAX};
    for (size_t n = 0; n < COUNT(SECONDS); n++)
        add("sleeps", run_sleep_seconds, (void *)(uintptr_t)SECONDS[n], NULL, NULL, "sleep %u s", SECONDS[n]);
    static const int FLAGS[] = {2, 3, 4, -1, INT32_MIN};
    for (size_t n = 0; n < COUNT(FLAGS); n++)
        add("sleeps", run_flags, (void *)(intptr_t)FLAGS[n], NULL, NULL, "clock_nanosleep, flags %d", FLAGS[n]);
    add("sleeps", run_yields, NULL, NULL, NULL, "sched_yield, pthread_yield, thrd_yield, 600 each");
    add("sleeps", run_zeros, NULL, NULL, NULL, "sleeps of no time, 400 each");
}
