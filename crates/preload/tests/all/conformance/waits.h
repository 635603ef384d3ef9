/* Every call that can wait, for a length in us, on things that are not ready. */
#ifndef WAITS_H
#define WAITS_H
#include "row.h"

/* A negative length has no end, for the calls that can have none. */
struct wait {
    const char *name;
    long (*make)(long us);
    /* Nothing but time ends a sleep. */
    enum { SLEEP, EVENTS, LOCK, CONDITION, YIELD } kind;
    /* After a signal, the C library goes on waiting. */
    int resumes;
    /* The system calls that the C library may make for it. */
    int own[3];
};

extern const struct wait WAITS[];
extern const size_t WAITS_COUNT;

/* Makes the things: nothing is ready, and another thread has the locks. */
void prepare_waits(void);
/* Makes all ready: an event, a post, free locks, a signalled condition. */
void make_ready(void);
/* One wait. The line has what it returns, and whether its time was over too soon. */
void wait_for(const struct wait *wait, long us);
/* A thread without signals. */
pthread_t start_helper(void *(*helper)(void *));
/* Sleeps without the library's functions. */
void pause_ms(int ms);
#endif
