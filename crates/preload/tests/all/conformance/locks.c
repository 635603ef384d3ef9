/* Semaphores, mutexes, conditions and futexes: every state, and every time limit. */
#include "waits.h"
#include <linux/futex.h>
#include <semaphore.h>

/* A time limit. One that is relative to now adds its ns. */
struct limit {
    const char *name;
    struct timespec time;
    enum { PLACED, FOR_READING, NOWHERE, BAD_ADDRESS } form;
    int from_now, endless;
};

static const struct limit LIMITS[] = {
    {"an hour ahead", {3600, 0}, PLACED, 1, 1},
    {"1 ms ahead", {0, 1000000}, PLACED, 1}, {"1 ms ahead, read-only", {0, 1000000}, FOR_READING, 1}, {"over", {1, 0}},
    {"tv_nsec 10^9", {1, 1000000000}}, {"tv_nsec 10^9, an hour ahead", {3600, 2000000000}, PLACED, 2},
    {"tv_nsec -1", {1, -1}}, {"tv_sec -1", {-1, 0}}, {"0", {0, 0}},
    {"null", {0, 0}, NOWHERE}, {"bad address", {0, 0}, BAD_ADDRESS},
    {"10^17 s", {100000000000000000, 0}, PLACED, 0, 1},
};
/* The limits that each kind of mutex has: the first ones. */
#define FEW_LIMITS 9

static const struct {
    const char *name;
    clockid_t clock;
} CLOCKS[] = {{"CLOCK_REALTIME", CLOCK_REALTIME}, {"CLOCK_MONOTONIC", CLOCK_MONOTONIC}, {"CLOCK_BOOTTIME", CLOCK_BOOTTIME}, {"clock 99", 99}};

static const struct timespec *limit_of(const struct limit *limit, clockid_t clock) {
    struct timespec time = limit->time;
    if (limit->form == NOWHERE) return NULL;
    if (limit->form == BAD_ADDRESS) return (void *)8;
    if (limit->from_now == 1) time = timespec_of(time_of(clock == 99 ? CLOCK_MONOTONIC : clock) + time.tv_sec * 1000 * MS + time.tv_nsec);
    if (limit->from_now == 2) time.tv_sec += time_of(clock == 99 ? CLOCK_MONOTONIC : clock) / 1000 / MS;
    return (limit->form == FOR_READING ? place_for_reading : place)(&time, sizeof time);
}

/* Makes a call with a time limit, and says whether its end was before that. */
#define CALL_UNTIL(clock, limit, ...)                                                                                  \
    do {                                                                                                               \
        const struct timespec *until = limit_of(limit, clock);                                                         \
        RESULT(__VA_ARGS__);                                                                                           \
        int over = done == ETIMEDOUT || done == thrd_timedout || done == -1 && error == ETIMEDOUT;                     \
        if (over && limit->from_now == 1 && time_of(clock) < until->tv_sec * 1000 * MS + until->tv_nsec) say(" EARLY"); \
    } while (0)

static void interrupt_if(int endless) {
    handle_alarm(0, NULL);
    if (endless) alarm_in(10);
}

static void run_semaphore(const void *first, const void *second, const void *third) {
    const struct limit *limit = first;
    int clock = (int)(intptr_t)second, posted = third != NULL;
    sem_t filled;
    sem_init(&filled, 0, posted);
    sem_t *semaphore = place(&filled, sizeof filled);
    interrupt_if(limit->endless && !posted);
    if (clock < 0) CALL_UNTIL(CLOCK_REALTIME, limit, sem_timedwait(semaphore, until));
    else CALL_UNTIL(CLOCKS[clock].clock, limit, sem_clockwait(semaphore, CLOCKS[clock].clock, until));
    int value = -1;
    sem_getvalue(semaphore, &value);
    say(" value %d", value);
}

struct mutex_kind {
    const char *name;
    int type, robust, protocol;
};

static const struct mutex_kind MUTEXES[] = {
    {"normal", PTHREAD_MUTEX_NORMAL}, {"recursive", PTHREAD_MUTEX_RECURSIVE}, {"error-checking", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP}, {"robust", PTHREAD_MUTEX_NORMAL, 1}, {"robust recursive", PTHREAD_MUTEX_RECURSIVE, 1},
    {"robust error-checking", PTHREAD_MUTEX_ERRORCHECK, 1}, {"inheriting", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT},
    {"inheriting error-checking", PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_INHERIT},
    {"inheriting recursive", PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_PRIO_INHERIT},
    {"inheriting robust", PTHREAD_MUTEX_NORMAL, 1, PTHREAD_PRIO_INHERIT},
};

enum state { FREE, ANOTHERS, OWN, OWNER_DIED, NOT_RECOVERABLE, FREED_MEANWHILE, STATES };
static const char *const STATE_NAMES[] = {"free", "another's", "its own", "owner died", "not recoverable", "freed meanwhile"};

static pthread_mutex_t mutex;
static sem_t locked;
static pthread_t holder;

static void *lock_and_stay(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&locked);
    for (;;) pause();
}

static void *lock_for_a_while(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&locked);
    pause_ms(15);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *lock_and_end(void *unused) {
    pthread_mutex_lock(&mutex);
    return NULL;
}

static void prepare_mutex(const struct mutex_kind *kind, enum state state) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind->type);
    if (kind->robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, kind->protocol);
    pthread_mutex_init(&mutex, &attributes);
    sem_init(&locked, 0, 0);
    if (state == OWN) pthread_mutex_lock(&mutex);
    if (state == ANOTHERS || state == FREED_MEANWHILE) {
        holder = start_helper(state == ANOTHERS ? lock_and_stay : lock_for_a_while);
        while (sem_wait(&locked) != 0) continue;
    }
    if (state == OWNER_DIED || state == NOT_RECOVERABLE) pthread_join(start_helper(lock_and_end), NULL);
    if (state == NOT_RECOVERABLE) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void *try_lock(void *unused) { return (void *)(intptr_t)pthread_mutex_trylock(&mutex); }

static void run_mutex(const void *first, const void *second, const void *third) {
    const struct limit *limit = first;
    int state = (int)(intptr_t)third % STATES, clock = (int)(intptr_t)third / STATES - 1;
    prepare_mutex(second, state);
    if (clock < 0) CALL_UNTIL(CLOCK_REALTIME, limit, pthread_mutex_timedlock(&mutex, until));
    else CALL_UNTIL(CLOCKS[clock].clock, limit, pthread_mutex_clocklock(&mutex, CLOCKS[clock].clock, until));
    if (state == FREED_MEANWHILE) pthread_join(holder, NULL);
    void *by_another;
    pthread_join(start_helper(try_lock), &by_another);
    say(" unlock %d", pthread_mutex_unlock(&mutex));
    say(" %d, tried by another %d", pthread_mutex_unlock(&mutex), (int)(intptr_t)by_another);
}

static mtx_t c11_mutex;
static int hold_c11(void *unused) {
    block_signals();
    mtx_lock(&c11_mutex);
    sem_post(&locked);
    for (;;) pause();
}

static void run_mtx(const void *first, const void *type, const void *third) {
    const struct limit *limit = first;
    thrd_t thread;
    mtx_init(&c11_mutex, (int)(intptr_t)type);
    sem_init(&locked, 0, 0);
    if (third == (void *)OWN) mtx_lock(&c11_mutex);
    if (third == (void *)ANOTHERS) {
        thrd_create(&thread, hold_c11, NULL);
        while (sem_wait(&locked) != 0) continue;
    }
    CALL_UNTIL(CLOCK_REALTIME, limit, mtx_timedlock(&c11_mutex, until));
}

static void run_condition(const void *first, const void *second, const void *third) {
    const struct limit *limit = first;
    int clock = (int)(intptr_t)second;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutexattr_t checks;
    pthread_mutexattr_init(&checks);
    pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &checks);
    if (third == NULL) pthread_mutex_lock(&mutex);
    if (clock < 0) CALL_UNTIL(CLOCK_REALTIME, limit, pthread_cond_timedwait(&condition, &mutex, until));
    else CALL_UNTIL(CLOCKS[clock].clock, limit, pthread_cond_clockwait(&condition, &mutex, CLOCKS[clock].clock, until));
    say(" unlock %d", pthread_mutex_unlock(&mutex));
}

static void run_cnd(const void *first, const void *second, const void *third) {
    cnd_t condition;
    cnd_init(&condition);
    mtx_init(&c11_mutex, mtx_plain);
    mtx_lock(&c11_mutex);
    const struct limit *limit = first;
    CALL_UNTIL(CLOCK_REALTIME, limit, cnd_timedwait(&condition, &c11_mutex, until));
}

/* Futexes. */
static const struct {
    const char *name;
    int operation;
} OPERATIONS[] = {
    {"FUTEX_WAIT", FUTEX_WAIT}, {"FUTEX_WAIT_PRIVATE", FUTEX_WAIT_PRIVATE}, {"FUTEX_WAIT_BITSET", FUTEX_WAIT_BITSET},
    {"FUTEX_WAIT_BITSET_PRIVATE", FUTEX_WAIT_BITSET_PRIVATE}, {"FUTEX_WAIT_BITSET, FUTEX_CLOCK_REALTIME", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME},
    {"FUTEX_WAIT, FUTEX_CLOCK_REALTIME", FUTEX_WAIT | FUTEX_CLOCK_REALTIME}, {"FUTEX_WAKE", FUTEX_WAKE},
    {"operation 99", 99},
};
static const char *const WORDS[] = {"the same", "another", "read-only", "null", "bad address", "not aligned", "no mask"};

static void run_futex(const void *first, const void *second, const void *third) {
    const struct limit *limit = first;
    int operation = OPERATIONS[(intptr_t)second].operation, word = (int)(intptr_t)third;
    unsigned expected = 0, value = word == 1 ? 7 : expected;
    int until = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    clockid_t clock = operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct limit length = *limit;
    if (!until) length.from_now = 0;
    const struct timespec *time = limit_of(&length, clock);
    unsigned *at = word == 2 ? place_for_reading(&value, 4) : word == 3 ? NULL : word == 4 ? (void *)16 : place(&value, 4);
    if (word == 5) at = (void *)((char *)at - 3);
    long long until_ns = until && time > (struct timespec *)4096 ? time->tv_sec * 1000 * MS + time->tv_nsec : time_of(clock) + limit->time.tv_nsec;
    interrupt_if(limit->endless || limit->form == NOWHERE || !until && !limit->from_now);
    RESULT(syscall(SYS_futex, at, operation, expected, time, NULL, word == 6 ? 0 : FUTEX_BITSET_MATCH_ANY));
    if (error == ETIMEDOUT && limit->from_now == 1 && time_of(clock) < until_ns) say(" EARLY");
}

static void add_mutexes(const struct limit *limit, size_t kind) {
    for (int state = FREE; state < STATES; state++) {
        int waits_on = state == ANOTHERS || state == OWN;
        if (limit->endless && (waits_on || limit->from_now == 0) || limit->form >= NOWHERE && state != FREE) continue;
        /* A mutex that is not robust has no owner that died. */
        if ((state == OWNER_DIED || state == NOT_RECOVERABLE) && !MUTEXES[kind].robust) continue;
        for (int clock = -1; clock < 4; clock++) {
            if (clock == 2 && kind > 0) continue;
            const char *call = clock < 0 ? "pthread_mutex_timedlock" : "pthread_mutex_clocklock ";
            add("locks", run_mutex, limit, &MUTEXES[kind], (void *)(intptr_t)((clock + 1) * STATES + state), "%s%s %s, %s, %s", call,
                clock < 0 ? "" : CLOCKS[clock].name, limit->name, MUTEXES[kind].name, STATE_NAMES[state]);
        }
    }
}

static void add_limit(const struct limit *limit) {
    for (intptr_t clock = -1; clock < 4; clock++) {
        const char *name = clock < 0 ? "" : CLOCKS[clock].name, *s = clock < 0 ? "sem_timedwait" : "sem_clockwait ";
        const char *c = clock < 0 ? "pthread_cond_timedwait" : "pthread_cond_clockwait ";
        add("locks", run_semaphore, limit, (void *)clock, NULL, "%s%s %s, none", s, name, limit->name);
        add("locks", run_semaphore, limit, (void *)clock, limit, "%s%s %s, posted", s, name, limit->name);
        if (limit->endless) continue;
        add("locks", run_condition, limit, (void *)clock, NULL, "%s%s %s", c, name, limit->name);
        add("locks", run_condition, limit, (void *)clock, limit, "%s%s %s, mutex not locked", c, name, limit->name);
    }
    for (intptr_t operation = 0; operation < COUNT(OPERATIONS); operation++)
        for (intptr_t word = 0; word < COUNT(WORDS); word++)
            add("locks", run_futex, limit, (void *)operation, (void *)word, "syscall(SYS_futex, %s) %s, %s", OPERATIONS[operation].name,
                limit->name, WORDS[word]);
    if (limit->endless) return;
    add("locks", run_cnd, limit, NULL, NULL, "cnd_timedwait %s", limit->name);
    /* Without a limit, a lock that is not free would wait without end. */
    for (intptr_t state = FREE; state <= (limit->form == NOWHERE ? FREE : OWN); state++) {
        add("locks", run_mtx, limit, (void *)mtx_timed, (void *)state, "mtx_timedlock %s, %s", limit->name, STATE_NAMES[state]);
        add("locks", run_mtx, limit, (void *)(mtx_timed | mtx_recursive), (void *)state, "mtx_timedlock %s, recursive, %s", limit->name,
            STATE_NAMES[state]);
    }
}

void add_locks(void) {
    for (size_t n = 0; n < COUNT(LIMITS); n++) {
        add_limit(&LIMITS[n]);
        for (size_t kind = 0; kind < COUNT(MUTEXES) && (n < FEW_LIMITS || kind == 0); kind++) add_mutexes(&LIMITS[n], kind);
    }
}
