/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* What the programs keep: of each thread, each CPU, and the sums that user space reads. */
#ifndef PUNCTUAL_LAYOUT_H
#define PUNCTUAL_LAYOUT_H

#include "kernel.h"

/* What a stretch is. */
enum spent { RUNNING, INTERRUPTED, READY, QUOTA, REAL_TIME, DEADLINE, STOPPED, TRACED, FROZEN, ASLEEP, SLEPT_LONGER, BLOCKED, UNKNOWN };
/* What `key.who` numbers. */
enum by { NOBODY, THREAD, INTERRUPT, SOFTIRQ, TIMER };
/* What a system call waits for, by its number: filled by the loader, since numbers differ between architectures. */
enum call_kind { OTHER_CALL, DESCRIPTOR, FUTEX, SENDS, UNTIL, SLEEPS, CHILD, VFORKS, CLONES, CLONES3 };
/* `key.how`. */
enum how { UNINTERRUPTIBLE = 1, IO_WAIT = 2, OUTSIDE_CALL = 4, OWNED = 8, IN_KERNEL = 16, RETRIES = 32, FOR_CHILD = 64 };

#define STOP_OF_KERNEL (1 << 16) /* in `key.thing`: no process sent the signal */
#define SLOTS 8 /* in sets of two */
#define HISTORY 32
#define RING 128
#define FRAMES 20
#define NAMES 4
#define NAME 32
#define EPOCHS 128
#define EPOCH_NS 16000000
#define TENANTS 6
#define REFILLS 8
#define NET_RX 3
#define DEVICES 10 /* after the ten softirqs: interrupts of devices */
#define TICKS 11   /* those of the CPU's own timer */
#define VECTORS 12
#define OWN_TIMER ((u32)-1) /* in place of an interrupt's line */
#define SUMS 131072
/* Of them, those with all details. The others are for sums of a thread's kind of stretch. */
#define DETAILED 65536
#define LONG_NS 100000
#define BRIEF_NS 3000
#define STACK_WORDS 112
/* From one reading of a caller to the next, unless the last long wait came too soon. */
#define CALLER_NS 1000000
/* The softirqs of an interrupt begin sooner than that after its handler. */
#define AFTER_NS 2000
/* Deadlines are rounded, those of floating-point numbers by more than a nanosecond. */
#define ALIKE_NS 20
/* A real-time thread that waits this long while none of its kind runs is throttled. */
#define RT_WAIT_NS 1000000

/* Keys are compared by words, and a CPU that has just written a word in parts waits before it reads the whole. So what runs at each switch
 * writes words. */
struct key {
    union {
        struct {
            u32 id; /* of the thread; 0: one for which there was no room */
            u8 spent;
            u8 by;
            s16 call; /* -1: between calls */
        };
        u64 kind;
    };
    union {
        struct {
            u32 who;   /* a thread, interrupt or softirq */
            u32 stack; /* of `stacks` */
        };
        u64 who_stack;
    };
    u64 thing; /* a futex's address, the inode's number, or the signal that stopped the thread */
    union {
        struct {
            u32 device;
            u16 mode; /* of the inode */
            u16 how;
        };
        u64 place;
    };
};

struct sum {
    u64 ns, times, longest;
};

struct slot {
    struct key key;
    struct sum sum;
};

struct past {
    struct key key;
    u64 from, to, ns;
};

/* Where `sums` has no room: the sums of each enum spent. */
struct rough {
    struct sum of[16];
};

/* From where a wait was called, for user space to unwind: registers, and the top of the stack. */
struct caller {
    u64 ns; /* how long the wait was */
    u64 instruction, stack, frame, link;
    u64 words[STACK_WORDS];
};

struct caller_key {
    u32 id;
    s32 call; /* -1: between calls */
    u64 thing, who_stack; /* as in the key of the wait */
};

/* A watched thread. */
struct thread {
    u64 since; /* the current stretch began */
    u64 asked; /* when the timer of this wait is to end it; 0: none */
    u64 early; /* a wake-up that came before the switch which it undoes */
    u64 group; /* its task group */
    u64 ran;   /* the kernel's count of its CPU time when it left its last CPU, or when the watch began */
    u32 id, tid, tgid, cpu, ready_at;
    u8 state, held, aside, ended;
    u8 by, early_by;
    u16 next;
    u32 who, early_who;
    s32 prio;
    u32 rt;
    u32 named;   /* who woke it last, by number, by the first letters of the name, and as `names` has it */
    u32 named_as;
    u64 letters;
    u64 own_name[2]; /* what the thread's own number in `names` stands for */
    u32 own_nice, own_as;
    u32 evicted; /* slots that made room for another key */
    struct key wait; /* of the wait that goes on */
    struct key refused; /* a sleep before the next try for the lock of a file that another process has */
    u64 retried; /* the file for which it slept last */
    u64 is_refused; /* since its last sleep, and did not get it since */
    struct slot running;
    struct slot slots[SLOTS];
    struct rough rough;
    struct past past[HISTORY];
    u64 called_at; /* the wait of `caller` began */
    s64 wanted;    /* a call that was long, and came too soon for `caller`, and 2; 0: none */
    struct caller caller;
};

/* What a thread is called, and how it is scheduled. Those that agree in it are one in the sums: a thousand workers that keep a thousand
 * others from a CPU are not a million sums. */
struct alias {
    u64 name[2], leader[2];
    u32 tgid; /* 0: it is neither watched, nor to be, nor punctual itself */
    s32 nice;
    u32 policy, rt_priority;
};

/* The last signal that stops a process. */
struct stopper {
    u32 sender;
    u16 signal, by_kernel;
};

/* Whom a CPU ran, and since when. */
struct turn {
    u64 start, group;
    struct alias alias;
    u32 tid, tgid;
    s32 prio;
    u32 as; /* its number in `names`; 0: nobody asked for it yet */
    u32 ran_out; /* the quota of its group was used up when it left */
    u32 pad;
};

/* Who had a CPU most, in a time that the ring of turns may not reach back to. */
struct epoch {
    u64 begin;
    u64 ns[TENANTS];
    u32 tids[TENANTS], as[TENANTS];
};

/* When a quota was filled up again. */
struct refills {
    u64 at[REFILLS];
    u64 next;
};

struct cpu {
    u64 events;
    u64 irq_since;
    u64 irq_ended; /* an interrupt, not a softirq */
    u64 vectors[VECTORS];
    u32 head;
    u32 watched; /* the running thread is watched */
    u32 interrupt, line, softirq, vector, timer;
    u32 busy_vectors;
    u32 epoch;
    u32 own; /* the running thread's own call, not an interrupt, is what a softirq serves */
    struct turn ring[RING];
    struct epoch epochs[EPOCHS];
};

struct info {
    u64 begin, end;
    u64 evicted; /* slots that made room for another key */
    u64 ran_before, ran, waited_before, waited; /* the kernel's own counters */
    u64 slack; /* of its timers, ns */
    u32 tid, tgid;
    s32 prio, nice;
    u32 policy, aside;
    char name[16], leader[16];
};

/* Numbers from here on are those of `aliases`; below, they are threads. */
#define ALIASES (1 << 30)

struct name {
    u32 tid, tgid;
    s32 prio, nice;
    u32 policy, pad;
    char name[16], leader[16];
};

struct inode_key {
    u64 number;
    u32 device, pad;
};

struct inode_name {
    char names[NAMES][NAME];
};

struct chain_key {
    u64 of; /* the hash of the waiting thread's key */
    struct key key;
};

struct turns_key {
    u32 id;
    s32 call;
    u64 timer; /* of a timerfd; 0: deadlines of the call itself */
};

/* Deadlines that a thread waited for. */
struct deadlines {
    u64 first, last, count, missed, behind, most;
    u64 step, regular; /* from the one before to the last; how often a step was as long as the one before */
};

struct {
    UINT(type, BPF_MAP_TYPE_TASK_STORAGE);
    UINT(map_flags, BPF_F_NO_PREALLOC);
    TYPE(key, int);
    TYPE(value, struct thread);
} threads SEC(".maps");

#define HASH_MAP(name, room, of, to)                                                                                                       \
    struct {                                                                                                                               \
        UINT(type, BPF_MAP_TYPE_HASH);                                                                                                     \
        UINT(map_flags, BPF_F_NO_PREALLOC);                                                                                                \
        UINT(max_entries, room);                                                                                                           \
        TYPE(key, of);                                                                                                                     \
        TYPE(value, to);                                                                                                                   \
    } name SEC(".maps")


HASH_MAP(chains, 65536, struct chain_key, struct sum);

/* Memory for these is taken at once: in the midst of a switch, the kernel may have none. */
struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, SUMS);
    TYPE(key, struct key);
    TYPE(value, struct sum);
} sums SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, 16384);
    TYPE(key, u32);
    TYPE(value, struct info);
} infos SEC(".maps");

HASH_MAP(refills, 1024, u64, struct refills);
HASH_MAP(names, 32768, u32, struct name);
HASH_MAP(aliases, 16384, struct alias, u32);
HASH_MAP(roughs, 16384, u32, struct rough);
HASH_MAP(interrupts, 256, u32, struct name);
HASH_MAP(files, 4096, struct inode_key, struct inode_name);
HASH_MAP(stoppers, 256, u32, struct stopper);
HASH_MAP(deadlines, 16384, struct turns_key, struct deadlines);
HASH_MAP(targets, 65536, u32, u32);

/* The longest wait of each key of a thread that waits. */
HASH_MAP(callers, 4096, struct caller_key, struct caller);

struct stack {
    u64 frames[FRAMES];
};
HASH_MAP(stacks, 16384, u32, struct stack);

/* Made ahead: a new place of a sample takes no memory that a switch needs. */
struct {
    UINT(type, BPF_MAP_TYPE_HASH);
    UINT(max_entries, 65536);
    TYPE(key, struct key);
    TYPE(value, u64);
} samples SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    UINT(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct stack);
} scratch SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    UINT(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct stack);
} scratch_samples SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    UINT(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct inode_name);
} scratch_names SEC(".maps");

struct {
    UINT(type, BPF_MAP_TYPE_ARRAY);
    UINT(max_entries, 1); /* the loader sets the number of CPUs */
    TYPE(key, u32);
    TYPE(value, struct cpu);
} cpus SEC(".maps");

/* What the loader says. */
const volatile u32 EXECUTES = 0; /* this process is watched once it has executed its program */
const volatile u32 PROCESS = 0;  /* threads that this process makes are watched */
const volatile u32 CHILDREN = 1;
const volatile u32 SELF = 0;     /* punctual's own process */
const volatile u64 WAKEUP = 0;   /* the function of the timers that end waits */
const volatile u64 TIMERFD = 0;  /* that of the timers of timerfd_create(2) */
const volatile u64 REFILL = 0;   /* the function of the timer that fills quotas up */
const volatile u8 CALLS[512] = {};
/* Those of 32-bit programs, by their numbers: the number here. */
const volatile u16 CALLS_OF_32_BITS[512] = {};

/* What both sides see. */
struct control {
    u64 ended_at; /* not 0: nothing is watched any more */
    u64 dropped; /* stretches without their details */
    u64 last_id, aside, kept, last_alias;
};

struct {
    UINT(type, BPF_MAP_TYPE_ARRAY);
    UINT(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct control);
} shared SEC(".maps");

#endif
