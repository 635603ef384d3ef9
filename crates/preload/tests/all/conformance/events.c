/* poll, select, epoll and their relatives: every kind of descriptors, and every limit. */
#include "waits.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

enum limit_form { FOR_MS, FOR_NS, INVALID, ENDLESS, BAD_ADDRESS, FOR_READING };

/* A limit, and how a call of ms, of a timespec and of a timeval has it. */
struct limit {
    const char *name;
    enum limit_form form;
    long sec, nsec;
};

static const struct limit LIMITS[] = {
    {"0", FOR_MS, 0, 0}, {"1 ms", FOR_MS, 0, 1000000}, {"1 ms, read-only", FOR_READING, 0, 1000000}, {"0, read-only", FOR_READING, 0, 0},
    {"1 ns", FOR_NS, 0, 1}, {"1 us", FOR_NS, 0, 1000}, {"tv_nsec 10^9", INVALID, 0, 1000000000},
    {"tv_nsec -1", INVALID, 0, -1}, {"tv_sec -1", INVALID, -1, 0}, {"2^31 ms", INVALID, 2147483, 648000000},
    {"10^17 s", INVALID, 100000000000000000, 0}, {"without end", ENDLESS, -1, -1}, {"bad address", BAD_ADDRESS, 0, 0},
};

enum kind { NONE, IDLE, READY, HUNG_UP, CLOSED, MANY_64, MANY_65, MANY_1024, TOO_MANY, NEGATIVE, BAD_SET, EDGE_KINDS };

static const char *const KINDS[] = {"none", "idle", "ready", "hung up", "closed", "64 idle", "65, the last ready", "1024, the last ready",
                                    "more than may be", "negative", "bad address"};

static int idle[2], ready[2], hung_up[2];

static void prepare(void) {
    if (pipe(idle) != 0 || pipe(ready) != 0 || pipe(hung_up) != 0 || write(ready[1], "x", 1) != 1) abort();
    close(hung_up[1]);
}

/* Whether a call would wait until a signal comes. A negative number of ms has no end. */
static int endless(const struct limit *limit, enum kind kind) {
    return (limit->form == ENDLESS || limit->sec > 1000 || limit->sec < 0) && (kind == NONE || kind == IDLE || kind == MANY_64);
}

static long long least_ns(const struct limit *limit, enum kind kind) {
    int waits = kind == NONE || kind == IDLE || kind == MANY_64;
    return waits && limit->form != INVALID && limit->form != ENDLESS && limit->form != BAD_ADDRESS ? limit->nsec : 0;
}

static const void *as_timespec(const struct limit *limit) {
    struct timespec length = {limit->sec, limit->nsec};
    if (limit->form == ENDLESS) return NULL;
    if (limit->form == BAD_ADDRESS) return (void *)8;
    return (limit->form == FOR_READING ? place_for_reading : place)(&length, sizeof length);
}

static void *as_timeval(const struct limit *limit) {
    struct timeval length = {limit->sec, limit->nsec < 1000 && limit->nsec >= 0 ? limit->nsec : limit->nsec / 1000};
    if (limit->form == INVALID && limit->nsec == -1) length.tv_usec = -1;
    if (limit->form == ENDLESS) return NULL;
    if (limit->form == BAD_ADDRESS) return (void *)8;
    return limit->form == FOR_READING ? place_for_reading(&length, sizeof length) : place_for_rest(&length, sizeof length);
}

static int as_ms(const struct limit *limit) {
    return limit->form == ENDLESS || limit->form == INVALID ? (int)(limit->sec * 1000 - 1) : limit->nsec / 1000000;
}

/* A limit that a call of ms can have. */
static int has_ms(const struct limit *limit) { return limit->form == FOR_MS || limit->form == ENDLESS || limit->sec == -1; }

static nfds_t poll_count(enum kind kind) {
    switch (kind) {
    case NONE: return 0;
    case MANY_64: return 64;
    case MANY_65: return 65;
    case MANY_1024: return 1024;
    case TOO_MANY: return 200000;
    case NEGATIVE: return (nfds_t)-1;
    default: return 1;
    }
}

/* The descriptors in an array at the end of a page. */
static struct pollfd *poll_array(enum kind kind) {
    nfds_t count = kind == TOO_MANY || kind == NEGATIVE ? 1 : poll_count(kind);
    static struct pollfd fds[1024];
    if (kind == BAD_SET) return (struct pollfd *)16;
    for (nfds_t n = 0; n < count; n++) fds[n] = (struct pollfd){kind == CLOSED ? 999 : idle[0], POLLIN | POLLPRI, 0x55};
    if (kind == HUNG_UP) fds[0].fd = hung_up[0];
    if (kind == READY || kind == MANY_65 || kind == MANY_1024) fds[count - 1].fd = ready[0];
    return place(fds, sizeof *fds * count);
}

static void run_poll(const void *with_timespec, const void *second, const void *third) {
    const struct limit *limit = second;
    enum kind kind = (intptr_t)third;
    prepare();
    struct pollfd *fds = poll_array(kind);
    const void *length = with_timespec ? as_timespec(limit) : NULL;
    handle_alarm(0, NULL);
    if (endless(limit, kind)) alarm_in(10);
    if (with_timespec) CALL(least_ns(limit, kind), ppoll(fds, poll_count(kind), length, NULL));
    else CALL(least_ns(limit, kind), poll(fds, poll_count(kind), as_ms(limit)));
}

/* The highest descriptor of a set with this many words, and one more. */
static int select_count(enum kind kind) {
    switch (kind) {
    case NONE: return 0;
    case MANY_64: return 64;
    case MANY_65: return 65;
    case MANY_1024: return 1024;
    case TOO_MANY: return 4096;
    case NEGATIVE: return -1;
    default: return 40;
    }
}

/* A set of as many words as the kernel touches, at the end of a page. */
static void *select_set(enum kind kind, int which) {
    static unsigned long words[64];
    int count = select_count(kind), fd = kind == READY || kind == MANY_65 || kind == MANY_1024 || kind == TOO_MANY ? ready[0] : idle[0];
    if (kind == BAD_SET) return (void *)16;
    if (kind == HUNG_UP) fd = hung_up[0];
    if (count <= 0) return which == 0 ? place(words, 8) : NULL;
    if (kind != CLOSED && dup2(fd, count - 1) < 0) abort();
    memset(words, 0, sizeof words);
    if (which == 0) words[(count - 1) / 64] |= 1ul << (count - 1) % 64;
    return place(words, (count + 63) / 64 * 8);
}

static void allow_many_descriptors(void) {
    struct rlimit many = {4096, 4096}, now;
    getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_max < 4096) many.rlim_cur = now.rlim_max, many.rlim_max = now.rlim_max;
    setrlimit(RLIMIT_NOFILE, &many);
}

static void run_select(const void *with_timespec, const void *second, const void *third) {
    const struct limit *limit = second;
    enum kind kind = (intptr_t)third;
    prepare();
    allow_many_descriptors();
    fd_set *read = select_set(kind, 0), *write = select_set(kind, 1), *except = select_set(kind, 2);
    const void *length = with_timespec ? as_timespec(limit) : as_timeval(limit);
    handle_alarm(0, NULL);
    if (endless(limit, kind)) alarm_in(10);
    if (with_timespec) CALL(least_ns(limit, kind), pselect(select_count(kind), read, write, except, length, NULL));
    else CALL(least_ns(limit, kind) / 1000 * 1000, select(select_count(kind), read, write, except, (void *)length));
}

/* Of epoll: its descriptor, the array, and its length. */
struct epoll_case {
    const char *name;
    enum kind kind;
    int room, no_epoll;
    enum { AT_END, BAD_ARRAY, READ_ONLY_ARRAY, NO_ARRAY } array;
};

static const struct epoll_case EPOLLS[] = {
    {"none", NONE, 1}, {"idle", IDLE, 1}, {"ready", READY, 1}, {"two ready, room for one", MANY_65, 1}, {"two ready, room for 64", MANY_65, 64},
    {"hung up", HUNG_UP, 3}, {"no room", READY, 0}, {"negative room", READY, -1}, {"most room", READY, INT32_MAX / 12 + 1},
    {"another descriptor", IDLE, 1, 1}, {"closed", IDLE, 1, 2},
    {"ready, bad address", READY, 1, 0, BAD_ARRAY}, {"ready, read-only", READY, 1, 0, READ_ONLY_ARRAY}, {"ready, null", READY, 1, 0, NO_ARRAY},
    {"idle, bad address", IDLE, 1, 0, BAD_ARRAY}, {"idle, null", IDLE, 1, 0, NO_ARRAY}, {"idle, beyond all addresses", IDLE, 1, 0, 4},
};

static int make_epoll(const struct epoll_case *what) {
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788};
    int fd = what->kind == READY || what->kind == MANY_65 ? ready[0] : what->kind == HUNG_UP ? hung_up[0] : idle[0];
    if (what->kind != NONE) epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    if (what->kind == MANY_65) epoll_ctl(epoll, EPOLL_CTL_ADD, hung_up[0], &event);
    return what->no_epoll == 1 ? fd : what->no_epoll == 2 ? 999 : epoll;
}

static struct epoll_event *event_array(const struct epoll_case *what) {
    struct epoll_event events[64];
    memset(events, 0x5a, sizeof events);
    size_t size = sizeof *events * (what->room > 0 && what->room <= 64 ? what->room : 1);
    switch (what->array) {
    case AT_END: return place(events, size);
    case READ_ONLY_ARRAY: return place_for_reading(events, size);
    case BAD_ARRAY: return (void *)16;
    case NO_ARRAY: return NULL;
    default: return (void *)-4096;
    }
}

static void run_epoll(const void *way, const void *second, const void *third) {
    const struct limit *limit = second;
    const struct epoll_case *what = third;
    prepare();
    int epoll = make_epoll(what);
    struct epoll_event *events = event_array(what);
    const void *length = (intptr_t)way == 2 ? as_timespec(limit) : NULL;
    handle_alarm(0, NULL);
    if (endless(limit, what->kind)) alarm_in(10);
    long long least = what->no_epoll || what->array > NO_ARRAY ? 0 : least_ns(limit, what->kind);
    switch ((intptr_t)way) {
    case 0: CALL(least, epoll_wait(epoll, events, what->room, as_ms(limit))); break;
    case 1: CALL(least, epoll_pwait(epoll, events, what->room, as_ms(limit), NULL)); break;
    default: CALL(least, epoll_pwait2(epoll, events, what->room, length, NULL));
    }
}

/* The masks of ppoll, pselect, epoll_pwait, epoll_pwait2: 0 blocks all, 1 lets a pending signal in, 2 is a bad address. */
static void run_mask(const void *call, const void *second, const void *third) {
    sigset_t all, none;
    struct timespec ms = {0, 1000000};
    intptr_t way = (intptr_t)second, with_ready = (intptr_t)third;
    prepare();
    sigfillset(&all);
    sigemptyset(&none);
    handle_alarm(0, NULL);
    sigprocmask(SIG_BLOCK, &all, NULL);
    raise(SIGALRM);
    const sigset_t *mask = way == 2 ? (void *)8 : place(way == 0 ? &all : &none, 8);
    struct pollfd fd = {with_ready ? ready[0] : idle[0], POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd.fd, &event);
    unsigned long set = 1ul << fd.fd;
    switch ((intptr_t)call) {
    case 0: CALL(0, ppoll(place(&fd, sizeof fd), 1, &ms, mask)); break;
    case 1: CALL(0, pselect(fd.fd + 1, place(&set, 8), NULL, NULL, &ms, mask)); break;
    case 2: CALL(0, epoll_pwait(epoll, place(&event, sizeof event), 1, 1, mask)); break;
    default: CALL(0, epoll_pwait2(epoll, place(&event, sizeof event), 1, &ms, mask));
    }
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    say(" signals %d, blocked %d", (int)alarms, sigismember(&now, SIGUSR1));
}

/* What another thread writes beside a set of one word, while the call lasts. */
static unsigned long *beside;
static void *write_beside(void *unused) {
    pause_ms(10);
    for (int n = 1; n <= 8; n++) beside[n] = n * 0x1111, beside[-n] = n * 0x2222;
    return NULL;
}

static void run_beside(const void *with_timespec, const void *second, const void *third) {
    prepare();
    unsigned long words[17] = {0};
    beside = (unsigned long *)place(words, sizeof words) + 8;
    *beside = 1ul << idle[0];
    struct timespec ms = {0, 40 * MS};
    struct timeval us = {0, 40000};
    pthread_t thread = start_helper(write_beside);
    if (with_timespec) CALL(40 * MS, pselect(idle[0] + 1, (void *)beside, NULL, NULL, &ms, NULL));
    else CALL(40 * MS, select(idle[0] + 1, (void *)beside, NULL, NULL, &us));
    pthread_join(thread, NULL);
}

/* The same set is asked for twice, and one set is another's. */
static void run_same_set(const void *with_timespec, const void *second, const void *third) {
    prepare();
    unsigned long words[2] = {1ul << ready[0], 0};
    fd_set *set = place(words, 8);
    struct timespec ms = {0, 1000000};
    struct timeval us = {0, 1000};
    if (with_timespec) CALL(0, pselect(ready[0] + 1, set, set, set, &ms, NULL));
    else CALL(0, select(ready[0] + 1, set, set, set, &us));
}

static void add_masks(void) {
    static const char *const CALLS[] = {"ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};
    static const char *const WAYS[] = {"blocks a pending signal", "lets a pending signal in", "bad address"};
    for (intptr_t call = 0; call < 4; call++)
        for (intptr_t way = 0; way < 3; way++)
            for (intptr_t with_ready = 0; with_ready < 2; with_ready++)
                add("events", run_mask, (void *)call, (void *)way, (void *)with_ready, "%s, mask %s, %s", CALLS[call], WAYS[way],
                    with_ready ? "ready" : "idle");
}

static void add_limit(const struct limit *limit) {
    for (intptr_t kind = NONE; kind < EDGE_KINDS; kind++) {
        if (has_ms(limit)) add("events", run_poll, NULL, limit, (void *)kind, "poll %s, %s", limit->name, KINDS[kind]);
        add("events", run_poll, limit, limit, (void *)kind, "ppoll %s, %s", limit->name, KINDS[kind]);
        add("events", run_select, NULL, limit, (void *)kind, "select %s, %s", limit->name, KINDS[kind]);
        add("events", run_select, limit, limit, (void *)kind, "pselect %s, %s", limit->name, KINDS[kind]);
    }
    for (size_t n = 0; n < COUNT(EPOLLS); n++) {
        const char *name = EPOLLS[n].name;
        if (has_ms(limit)) add("events", run_epoll, (void *)0, limit, &EPOLLS[n], "epoll_wait %s, %s", limit->name, name);
        if (has_ms(limit)) add("events", run_epoll, (void *)1, limit, &EPOLLS[n], "epoll_pwait %s, %s", limit->name, name);
        add("events", run_epoll, (void *)2, limit, &EPOLLS[n], "epoll_pwait2 %s, %s", limit->name, name);
    }
}

void add_events(void) {
    for (size_t n = 0; n < COUNT(LIMITS); n++) add_limit(&LIMITS[n]);
    add_masks();
    add("events", run_beside, NULL, NULL, NULL, "select, another thread writes beside the set");
    add("events", run_beside, LIMITS, NULL, NULL, "pselect, another thread writes beside the set");
    add("events", run_same_set, NULL, NULL, NULL, "select, one set three times");
    add("events", run_same_set, LIMITS, NULL, NULL, "pselect, one set three times");
}
