/* A row: one call with one argument in one situation. It says on one line what came of it. */
#ifndef ROW_H
#define ROW_H
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define COUNT(array) (sizeof(array) / sizeof *(array))
/* errno before each call. */
#define NO_ERROR 77

/* Adds a row. It runs in a process of its own. Rows of the same part are chosen together. */
typedef void run_row(const void *first, const void *second, const void *third);
void add(const char *part, run_row *run, const void *first, const void *second, const void *third, const char *name, ...)
    __attribute__((format(printf, 6, 7)));

void add_sleeps(void);
void add_events(void);
void add_locks(void);
void add_names(void);
void add_situations(void);
void add_filters(void);
/* The rest of a row that executes this program under a filter. */
int filtered(const char *number);

/* Adds to the line of the row. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Begins the line again. */
void unsay(void);

/* The time of a clock, ns. */
long long time_of(clockid_t clock);
struct timespec timespec_of(long long ns);

/* A copy of data at the end of a page that no other page follows. The row's line has the bytes of the page that the call changes. */
void *place(const void *data, size_t size);
/* The same in a page that cannot be written. */
void *place_for_reading(const void *data, size_t size);
/* A time that the call may write what is left to. The line has only whether there is any. */
void *place_for_rest(const void *data, size_t size);

/* Makes a call, and says what it returns and errno. Both stay in variables. */
#define RESULT(...)                                                                                                    \
    errno = NO_ERROR;                                                                                                  \
    long done = (long)(__VA_ARGS__);                                                                                   \
    int error = errno;                                                                                                 \
    say(" %ld errno %d", done, error)

/* The same, and whether it was shorter than it has to be. */
#define CALL(least_ns, ...)                                                                                            \
    do {                                                                                                               \
        long long began_ns = time_of(CLOCK_MONOTONIC);                                                                 \
        RESULT(__VA_ARGS__);                                                                                           \
        if (time_of(CLOCK_MONOTONIC) - began_ns < (least_ns)) say(" EARLY");                                           \
    } while (0)

/* Sends SIGALRM to this process once, in so many ms; 0: no more. The handler counts. */
void alarm_in(int ms);
void handle_alarm(int flags, void (*also)(void));
extern volatile sig_atomic_t alarms;
/* Whether an alarm came while the program's own code ran, and so before or after the call. */
extern volatile sig_atomic_t alarm_was_outside;

/* Blocks all signals in this thread. */
void block_signals(void);
#endif
