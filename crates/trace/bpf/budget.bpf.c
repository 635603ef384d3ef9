/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Where the wall time of the watched threads goes: each has a current stretch. Every event that ends it adds it to a sum, and begins the
 * next one at the same time. So the sums of a thread are its wall time, whatever was missed.
 *
 * The layouts here are those of src/budget/layout.rs. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What a stretch is. */
enum spent { RUNNING, INTERRUPTED, READY, QUOTA, REAL_TIME, DEADLINE, STOPPED, TRACED, FROZEN, ASLEEP, SLEPT_LONGER, BLOCKED, UNKNOWN };
/* What `key.who` numbers. */
enum by { NOBODY, THREAD, INTERRUPT, SOFTIRQ, TIMER };
/* What a system call waits for, by its number: filled by the loader, since numbers differ between architectures. */
enum call_kind { OTHER_CALL, DESCRIPTOR, FUTEX, SENDS, UNTIL };
/* `key.how`. */
enum how { UNINTERRUPTIBLE = 1, IO_WAIT = 2, OUTSIDE_CALL = 4, OWNED = 8, IN_KERNEL = 16 };

#define SLOTS 8
#define HISTORY 32
#define RING 128
#define FRAMES 20
#define NAMES 4
#define NAME 32
#define EPOCHS 128
#define EPOCH_NS 16000000
#define TENANTS 6
#define REFILLS 8
#define VECTORS 11 /* ten softirqs, and interrupts of devices */
#define LONG_NS 100000
#define BRIEF_NS 3000
/* A real-time thread that waits this long while none of its kind runs is throttled. */
#define RT_WAIT_NS 1000000

struct key {
    u32 id;    /* of the thread; 0: one for which there was no room */
    u8 spent;
    u8 by;
    s16 call;  /* -1: between calls */
    u32 who;   /* a thread, interrupt or softirq */
    u32 stack; /* of `stacks` */
    u64 thing; /* a futex's address, or the inode's number */
    u32 device;
    u16 mode;  /* of the inode */
    u16 how;
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

/* A watched thread. */
struct thread {
    u64 since; /* the current stretch began */
    u64 asked; /* when the timer of this wait is to end it; 0: none */
    u64 early; /* a wake-up that came before the switch which it undoes */
    u64 group; /* its task group */
    u64 unknown;
    u32 id, tid, tgid, cpu, ready_at;
    u8 state, held, aside, ended;
    u8 by, early_by;
    u16 next;
    u32 who, early_who;
    s32 prio;
    u32 rt;
    u32 named, pad; /* the last one whose name was kept on its behalf */
    struct key wait; /* of the wait that goes on */
    struct slot slots[SLOTS];
    struct past past[HISTORY];
};

/* Whom a CPU ran, and since when. */
struct turn {
    u64 start, group;
    u32 tid, tgid;
    s32 prio;
    s32 nice;
    u32 policy;
    u16 watched; /* its name is known otherwise */
    u16 ran_out; /* the quota of its group was used up when it left */
    char name[16], leader[16];
};

/* Who had a CPU most, in a time that the ring of turns may not reach back to. */
struct epoch {
    u64 begin;
    u64 ns[TENANTS];
    u32 tids[TENANTS];
};

/* When a quota was filled up again. */
struct refills {
    u64 at[REFILLS];
    u64 next;
};

struct cpu {
    u64 events;
    u64 irq_since;
    u64 vectors[VECTORS];
    u32 head;
    u32 watched; /* the running thread is watched */
    u32 interrupt, line, softirq, vector, timer;
    u32 busy_vectors;
    u32 epoch;
    struct turn ring[RING];
    struct epoch epochs[EPOCHS];
};

struct info {
    u64 begin, end, unknown;
    u64 ran_before, ran, waited_before, waited; /* the kernel's own counters */
    u32 tid, tgid;
    s32 prio, nice;
    u32 policy, aside;
    char name[16], leader[16];
};

struct name {
    u32 tgid;
    s32 prio, nice;
    u32 policy;
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
};

/* Deadlines that a thread waited for. */
struct deadlines {
    u64 first, last, count, missed, behind, most;
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
    UINT(max_entries, 65536);
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
HASH_MAP(names, 16384, u32, struct name);
HASH_MAP(interrupts, 256, u32, struct name);
HASH_MAP(files, 4096, struct inode_key, struct inode_name);
HASH_MAP(stoppers, 256, u32, u32);
HASH_MAP(deadlines, 16384, struct turns_key, struct deadlines);
HASH_MAP(targets, 16384, u32, u32);

struct stack {
    u64 frames[FRAMES];
};
HASH_MAP(stacks, 16384, u32, struct stack);
HASH_MAP(samples, 65536, struct key, u64);

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
const volatile u64 REFILL = 0;   /* the function of the timer that fills quotas up */
const volatile u8 CALLS[512] = {};

/* What both sides see. */
struct control {
    u64 ended_at; /* not 0: nothing is watched any more */
    u64 dropped, last_id, aside, exited;
};

struct {
    UINT(type, BPF_MAP_TYPE_ARRAY);
    UINT(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct control);
} shared SEC(".maps");

INLINE struct control *control(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&shared, &zero);
}

INLINE struct cpu *cpu_of(u32 number)
{
    return bpf_map_lookup_elem(&cpus, &number);
}

INLINE struct thread *watched(struct task_struct *task)
{
    return bpf_task_storage_get(&threads, task, NULL, 0);
}

INLINE void drop(void)
{
    struct control *all = control();
    if (all)
        __sync_fetch_and_add(&all->dropped, 1);
}

INLINE bool same(const struct key *one, const struct key *other)
{
    const u64 *a = (const u64 *)one, *b = (const u64 *)other;
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

INLINE u64 hash(const struct key *key)
{
    const u64 *words = (const u64 *)key;
    u64 sum = 0xcbf29ce484222325ULL;
#pragma unroll
    for (int at = 0; at < 4; at++) {
        sum = (sum ^ words[at]) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 29;
    }
    return sum;
}

/* Adds to a sum that any CPU may add to. */
INLINE void join(struct sum *sum, const struct sum *more)
{
    __sync_fetch_and_add(&sum->ns, more->ns);
    __sync_fetch_and_add(&sum->times, more->times);
    if (more->longest > sum->longest)
        sum->longest = more->longest;
}

/* Moves a slot to `sums`, where user space reads. */
ALONE int flush(struct thread *thread, struct slot *slot)
{
    if (!thread || !slot || !slot->sum.times)
        return 0;
    struct sum *sum = bpf_map_lookup_elem(&sums, &slot->key);
    if (sum) {
        join(sum, &slot->sum);
    } else if (bpf_map_update_elem(&sums, &slot->key, &slot->sum, BPF_NOEXIST)) {
        sum = bpf_map_lookup_elem(&sums, &slot->key);
        if (sum) {
            join(sum, &slot->sum);
        } else {
            drop();
            thread->unknown += slot->sum.ns;
        }
    }
    slot->sum.ns = slot->sum.times = slot->sum.longest = 0;
    return 0;
}

/* What the thread did lately, for the chain of those who wait for it: stretches that alternate are joined. */
INLINE void remember(struct thread *thread, const struct key *key, u64 from, u64 to)
{
    struct past *last = &thread->past[(thread->next - 1) & (HISTORY - 1)];
    struct past *before = &thread->past[(thread->next - 2) & (HISTORY - 1)];
    /* In waits that are long enough for a chain, so short a stretch is nothing: it counts as part of the one before. */
    struct past *alike = to - from < BRIEF_NS || same(&last->key, key) ? last : same(&before->key, key) ? before : NULL;
    if (alike && alike->to) {
        alike->to = to;
        alike->ns += to - from;
        return;
    }
    u32 at = thread->next++ & (HISTORY - 1);
    thread->past[at].key = *key;
    thread->past[at].from = from;
    thread->past[at].to = to;
    thread->past[at].ns = to - from;
}

/* Adds a stretch to its sum. */
ALONE int add(struct thread *thread, const struct key *key, u64 from, u64 to)
{
    if (!thread || !key || to <= from)
        return 0;
    u32 at = (key->spent * 5 + key->call * 3 + key->who + (u32)(key->thing >> 3) + key->stack) & (SLOTS - 1);
    struct slot *slot = &thread->slots[at];
    if (!slot->sum.times || !same(&slot->key, key)) {
        flush(thread, slot);
        slot->key = *key;
    }
    slot->sum.ns += to - from;
    slot->sum.times++;
    if (to - from > slot->sum.longest)
        slot->sum.longest = to - from;
    remember(thread, key, from, to);
    return 0;
}

INLINE void add_plain(struct thread *thread, u8 spent, u64 from, u64 to)
{
    struct key key = {.id = thread->id, .spent = spent, .call = -1};
    add(thread, &key, from, to);
}

/* Why a ready thread is not run. */
enum held { NOT_HELD, BY_QUOTA, BY_RT_LIMIT };

INLINE u8 spent_held(u32 held)
{
    return held == BY_QUOTA ? QUOTA : held == BY_RT_LIMIT ? REAL_TIME : READY;
}

/* When the quota of a thread's group, or of one above, was filled up first after this time; 0: it was not. */
ALONE u64 refilled(struct thread *thread, u64 after)
{
    if (!thread || !REFILL)
        return 0;
    struct task_group *group = (void *)thread->group;
    for (int above = 0; above < 4 && group; above++) {
        u64 timer = (u64)&group->cfs_bandwidth.period_timer, first = 0;
        struct refills *all = bpf_map_lookup_elem(&refills, &timer);
        if (all) {
            for (int at = 0; at < REFILLS; at++) {
                u64 time = all->at[at];
                if (time > after && (!first || time < first))
                    first = time;
            }
            return first;
        }
        struct task_group *parent = NULL;
        bpf_probe_read_kernel(&parent, 8, &group->parent);
        group = parent;
    }
    return 0;
}

/* Ready: who had the CPU meanwhile. */
struct walk {
    struct thread *thread;
    struct cpu *cpu;
    u64 from, to, refill;
    u32 at, head, held;
};

INLINE void name_turn(struct turn *turn)
{
    u32 tid = turn->tid;
    if (turn->watched || bpf_map_lookup_elem(&names, &tid))
        return;
    struct name name = {.tgid = turn->tgid, .prio = turn->prio, .nice = turn->nice, .policy = turn->policy};
    __builtin_memcpy(name.name, turn->name, 16);
    __builtin_memcpy(name.leader, turn->leader, 16);
    bpf_map_update_elem(&names, &tid, &name, BPF_NOEXIST);
}

/* The thread is held no longer since this time. */
INLINE void let_go(struct walk *walk, u64 time)
{
    struct key key = {.id = walk->thread->id, .spent = spent_held(walk->held), .call = -1};
    if (time > walk->to)
        time = walk->to;
    if (time > walk->from) {
        add(walk->thread, &key, walk->from, time);
        walk->from = time;
    }
    walk->held = NOT_HELD;
}

static long piece(u32 count, struct walk *walk)
{
    struct thread *thread = walk->thread;
    struct turn *turn = &walk->cpu->ring[walk->at & (RING - 1)];
    u64 until = walk->to;
    if (walk->at != walk->head) {
        until = walk->cpu->ring[(walk->at + 1) & (RING - 1)].start;
        if (until > walk->to)
            until = walk->to;
    }
    if (walk->held == BY_QUOTA) {
        if (turn->tid && turn->group == thread->group)
            let_go(walk, turn->start);
        else if (walk->refill && walk->refill < until)
            let_go(walk, walk->refill);
    } else if (walk->held == BY_RT_LIMIT && turn->tid && turn->prio < 100) {
        let_go(walk, turn->start);
    }
    if (!walk->held && until > walk->from && thread->rt && turn->prio >= 100 && until - walk->from > RT_WAIT_NS)
        walk->held = BY_RT_LIMIT;
    if (!walk->held && until > walk->from) {
        struct key key = {.id = thread->id, .spent = READY, .call = -1};
        if (turn->tid) {
            key.by = THREAD;
            key.who = turn->tid;
            if (thread->named != turn->tid) {
                name_turn(turn);
                thread->named = turn->tid;
            }
        }
        add(thread, &key, walk->from, until);
        walk->from = until;
    }
    if (!walk->held && turn->ran_out && turn->group == thread->group) {
        walk->held = BY_QUOTA;
        walk->refill = refilled(thread, until);
    }
    if (walk->at == walk->head || until >= walk->to)
        return 1;
    walk->at++;
    return 0;
}

/* The same by epochs, where the ring does not reach back. */
static long epoch_piece(u32 count, struct walk *walk)
{
    struct epoch *epoch = &walk->cpu->epochs[walk->at & (EPOCHS - 1)];
    u64 begin = epoch->begin, end = walk->cpu->epochs[(walk->at + 1) & (EPOCHS - 1)].begin;
    u32 last = walk->at == walk->head;
    walk->at++;
    if (last || end > walk->to)
        end = walk->to;
    if (begin < walk->from)
        begin = walk->from;
    if (!epoch->begin || end <= begin)
        return last;
    struct key key = {.id = walk->thread->id, .spent = READY, .call = -1};
    add(walk->thread, &key, walk->from, begin);
    u64 whole = end - epoch->begin, within = end - begin;
    for (u32 at = 0; at < TENANTS; at++) {
        u64 share = whole ? (epoch->ns[at] >> 10) * within / ((whole >> 10) + 1) : 0;
        if (share > end - begin)
            share = end - begin;
        if (!epoch->tids[at] || !share)
            continue;
        key.by = THREAD;
        key.who = epoch->tids[at];
        add(walk->thread, &key, begin, begin + share);
        begin += share;
    }
    key.by = NOBODY;
    key.who = 0;
    add(walk->thread, &key, begin, end);
    walk->from = end;
    return last || end >= walk->to;
}

ALONE int end_ready(struct thread *thread, u64 now)
{
    if (!thread)
        return 0;
    struct cpu *cpu = cpu_of(thread->cpu);
    struct walk walk = {.thread = thread, .from = thread->since, .to = now, .held = thread->held};
    if (cpu && now > thread->since) {
        walk.cpu = cpu;
        if (walk.held == BY_QUOTA)
            walk.refill = refilled(thread, thread->since);
        u32 head = cpu->head, first = thread->ready_at;
        if (head - first >= RING - 1) {
            /* The ring no longer has who ran first. */
            first = head - (RING - 2);
            u64 known = cpu->ring[first & (RING - 1)].start;
            if (walk.held == BY_QUOTA && walk.refill && walk.refill < known)
                let_go(&walk, walk.refill);
            if (!walk.held && known > walk.from) {
                walk.to = known < now ? known : now;
                walk.head = cpu->epoch;
                walk.at = cpu->epoch - (EPOCHS - 2);
                bpf_loop(EPOCHS, epoch_piece, &walk, 0);
                walk.to = now;
            }
        }
        walk.head = head;
        walk.at = first;
        if (first == head)
            piece(0, &walk);
        else
            bpf_loop(RING, piece, &walk, 0);
    }
    if (walk.from < now)
        add_plain(thread, spent_held(walk.held), walk.from, now);
    thread->held = walk.held;
    thread->since = now;
    return 0;
}

/* Running, less what interrupts took. */
INLINE void end_running(struct thread *thread, struct cpu *cpu, u64 now)
{
    u64 from = thread->since;
    if (cpu && cpu->busy_vectors) {
        for (u32 vector = 0; vector < VECTORS; vector++) {
            u64 ns = cpu->vectors[vector];
            if (!ns)
                continue;
            cpu->vectors[vector] = 0;
            if (ns > now - from)
                ns = now - from;
            struct key key = {.id = thread->id, .spent = INTERRUPTED, .call = -1, .who = vector, .by = SOFTIRQ};
            if (vector == VECTORS - 1) {
                key.by = INTERRUPT;
                key.who = cpu->line;
            }
            add(thread, &key, from, from + ns);
            from += ns;
        }
        cpu->busy_vectors = 0;
    }
    add_plain(thread, RUNNING, from, now);
    thread->since = now;
}

struct registers {
    s64 call;
    u64 arguments[3];
};

INLINE void read_registers(struct task_struct *task, struct registers *found)
{
    found->call = -1;
    void *at = bpf_task_pt_regs(task);
    if (!at)
        return;
    struct pt_regs___x86 *x86 = at;
    struct pt_regs___arm64 *arm = at;
    if (HAS(x86->orig_ax)) {
        found->call = x86->orig_ax;
        found->arguments[0] = x86->di;
        found->arguments[1] = x86->si;
        found->arguments[2] = x86->dx;
    } else if (HAS(arm->syscallno)) {
        found->call = arm->syscallno;
        found->arguments[0] = arm->orig_x0;
        found->arguments[1] = arm->regs[1];
        found->arguments[2] = arm->regs[2];
    }
    if (found->call < 0 || found->call >= 4096)
        found->call = -1;
}

INLINE u8 kind_of(s64 call)
{
    return call >= 0 && call < 512 ? CALLS[call & 511] : OTHER_CALL;
}

/* The last names of a file's path, once. */
APART int name_file(struct file *file, struct key *key)
{
    if (!file || !key)
        return 0;
    struct inode_key inode = {.number = key->thing, .device = key->device};
    if (bpf_map_lookup_elem(&files, &inode))
        return 0;
    u32 zero = 0;
    struct inode_name *name = bpf_map_lookup_elem(&scratch_names, &zero);
    if (!name)
        return 0;
    struct dentry *dentry = NULL, *above = NULL;
    bpf_probe_read_kernel(&dentry, 8, &file->f_path.dentry);
    for (int at = 0; at < NAMES; at++) {
        name->names[at][0] = 0;
        if (!dentry)
            continue;
        const unsigned char *text = NULL;
        bpf_probe_read_kernel(&text, 8, &dentry->d_name.name);
        bpf_probe_read_kernel_str(name->names[at], NAME, text);
        bpf_probe_read_kernel(&above, 8, &dentry->d_parent);
        dentry = above == dentry ? NULL : above;
    }
    bpf_map_update_elem(&files, &inode, name, BPF_NOEXIST);
    return 0;
}

INLINE void read_file(struct task_struct *task, u64 descriptor, struct key *key)
{
    struct files_struct *open = task->files;
    struct fdtable *table = NULL;
    struct file **all = NULL, *file = NULL;
    u32 most = 0;
    if (!open)
        return;
    bpf_probe_read_kernel(&table, 8, &open->fdt);
    bpf_probe_read_kernel(&most, 4, &table->max_fds);
    if (!table || descriptor >= most)
        return;
    bpf_probe_read_kernel(&all, 8, &table->fd);
    bpf_probe_read_kernel(&file, 8, all + descriptor);
    if (!file)
        return;
    struct inode *inode = NULL;
    struct super_block *block = NULL;
    unsigned long number = 0;
    bpf_probe_read_kernel(&inode, 8, &file->f_inode);
    bpf_probe_read_kernel(&key->mode, 2, &inode->i_mode);
    bpf_probe_read_kernel(&number, 8, &inode->i_ino);
    bpf_probe_read_kernel(&block, 8, &inode->i_sb);
    bpf_probe_read_kernel(&key->device, 4, &block->s_dev);
    key->thing = number;
    u32 type = key->mode >> 12;
    if (type == 8 || type == 6 || type == 2)
        name_file(file, key);
}

/* The word of a futex whose owner sleeps in the kernel: glibc's locks, musl's and Rust's have such values. */
INLINE void read_futex(struct registers *registers, struct key *key)
{
    u32 action = registers->arguments[1] & 0x7f, value = registers->arguments[2];
    key->thing = registers->arguments[0];
    bool by_thread = action == 6 || action == 13;
    if (by_thread || ((action == 0 || action == 9) && (value == 2 || ((value & 0x80000000) && (value & 0x3fffffff) < 1 << 22))))
        key->how |= OWNED;
}

/* What the thread waits for, from now on. */
APART int describe(struct task_struct *task, struct thread *thread, u32 state)
{
    if (!task || !thread)
        return 0;
    struct registers registers = {};
    struct key key = {.id = thread->id, .spent = BLOCKED};
    read_registers(task, &registers);
    key.call = registers.call;
    if (registers.call < 0)
        key.how |= OUTSIDE_CALL;
    if (state & TASK_UNINTERRUPTIBLE)
        key.how |= UNINTERRUPTIBLE;
    if (BITS(task, in_iowait))
        key.how |= IO_WAIT;
    u8 kind = kind_of(registers.call);
    if (state & STOPPED_STATE)
        key.spent = STOPPED;
    else if (state & TRACED_STATE)
        key.spent = TRACED;
    else if ((state & FROZEN_STATE) || (BITS(task, frozen) && !(state & TASK_UNINTERRUPTIBLE)))
        key.spent = FROZEN;
    else if (kind == DESCRIPTOR || kind == SENDS)
        read_file(task, registers.arguments[0], &key);
    else if (kind == FUTEX)
        read_futex(&registers, &key);
    if (key.spent == STOPPED) {
        u32 process = thread->tgid, *stopper = bpf_map_lookup_elem(&stoppers, &process);
        if (stopper) {
            key.by = THREAD;
            key.who = *stopper;
        }
    } else if (key.spent == TRACED) {
        struct task_struct *tracer = NULL;
        u32 number = 0;
        bpf_probe_read_kernel(&tracer, 8, &task->parent);
        bpf_probe_read_kernel(&number, 4, &tracer->pid);
        key.by = THREAD;
        key.who = number;
    }
    thread->wait = key;
    return 0;
}

/* Keeps a kernel stack of this size, and returns its name. */
INLINE u32 keep(struct stack *stack, long size)
{
    if (size <= 0)
        return 0;
    u32 count = size / 8, sum = 2166136261u;
    for (u32 at = 0; at < FRAMES; at++) {
        if (at >= count)
            stack->frames[at] = 0;
        sum = (sum ^ (u32)stack->frames[at]) * 16777619u;
    }
    sum |= 1;
    if (!bpf_map_lookup_elem(&stacks, &sum) && bpf_map_update_elem(&stacks, &sum, stack, BPF_NOEXIST))
        return 0;
    return sum;
}

/* The kernel stack of a thread that sleeps. */
INLINE u32 stack_of(struct task_struct *task)
{
    u32 zero = 0;
    struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);
    return stack ? keep(stack, bpf_get_task_stack(task, stack, sizeof *stack, 0)) : 0;
}

INLINE void name_task(struct task_struct *task)
{
    u32 tid = task->pid;
    if (bpf_map_lookup_elem(&names, &tid))
        return;
    struct name name = {.tgid = task->tgid, .prio = task->prio, .nice = task->static_prio - 120, .policy = task->policy};
    struct task_struct *leader = task->group_leader;
    bpf_probe_read_kernel(name.name, 16, task->comm);
    bpf_probe_read_kernel(name.leader, 16, leader->comm);
    bpf_map_update_elem(&names, &tid, &name, BPF_NOEXIST);
}

/* What /proc/TID/schedstat shows. */
INLINE void read_counters(struct task_struct *task, u64 *ran, u64 *waited)
{
    *ran = task->se.sum_exec_runtime;
    *waited = HAS(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Begins to watch a thread. Those `aside` are watched for the chains alone. */
APART struct thread *begin(struct task_struct *task, u64 now, u32 aside)
{
    struct control *all = control();
    if (!task || !all)
        return NULL;
    struct thread *thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!thread) {
        __sync_fetch_and_add(&all->dropped, 1);
        return NULL;
    }
    u32 id = __sync_fetch_and_add(&all->last_id, 1) + 1;
    struct info info = {.begin = now, .tid = task->pid, .tgid = task->tgid, .aside = aside};
    bpf_probe_read_kernel(info.name, 16, task->comm);
    read_counters(task, &info.ran_before, &info.waited_before);
    if (bpf_map_update_elem(&infos, &id, &info, BPF_NOEXIST)) {
        __sync_fetch_and_add(&all->dropped, 1);
        id = 0;
    }
    thread->id = id;
    thread->tid = task->pid;
    thread->tgid = task->tgid;
    thread->since = now;
    thread->state = UNKNOWN;
    thread->aside = aside;
    thread->group = (u64)task->sched_task_group;
    return thread;
}

INLINE void set_policy(struct thread *thread, struct task_struct *task)
{
    thread->prio = task->prio;
    thread->rt = task->prio >= 0 && task->prio < 100;
    thread->group = (u64)task->sched_task_group;
}

/* The quota of its group is used up, or that of a group above. */
INLINE u8 quota_used_up(struct task_struct *task)
{
    struct task_struct___throttled *form = (void *)task;
    /* There, threads of a group without quota compete until they are to return to their own code. */
    if (HAS(form->throttled))
        return form->throttled;
    if (!HAS(task->se.cfs_rq))
        return 0;
    struct cfs_rq *queue = task->se.cfs_rq;
    return queue && HAS(queue->throttle_count) && queue->throttle_count > 0;
}

/* Writes what is known of a thread: all that is still in its slots, its name and its policy. */
APART int finish(struct task_struct *task, struct thread *thread, u64 now)
{
    if (!task || !thread)
        return 0;
    for (u32 at = 0; at < SLOTS; at++)
        flush(thread, &thread->slots[at]);
    u32 id = thread->id;
    struct info *info = bpf_map_lookup_elem(&infos, &id);
    if (!info)
        return 0;
    struct task_struct *leader = task->group_leader;
    bpf_probe_read_kernel(info->name, 16, task->comm);
    bpf_probe_read_kernel(info->leader, 16, leader->comm);
    info->tid = task->pid;
    info->tgid = task->tgid;
    info->prio = task->prio;
    info->nice = task->static_prio - 120;
    info->policy = task->policy;
    info->unknown = thread->unknown;
    u64 ran = 0, waited = 0;
    read_counters(task, &ran, &waited);
    info->ran = ran;
    info->waited = waited;
    info->end = now;
    return 0;
}

/* The chain: what the thread that ended the wait did during it. */
struct link {
    struct thread *waker;
    u64 of, from, to;
};

INLINE void link_part(struct link *link, const struct key *key, u64 from, u64 to, u64 ns)
{
    u64 begin = from > link->from ? from : link->from, end = to < link->to ? to : link->to;
    if (end <= begin || to <= from)
        return;
    u64 within = end - begin;
    if (ns < to - from)
        within = ns >= 1u << 31 ? ns : within * (ns >> 10) / ((to - from + 1023) >> 10);
    struct chain_key chain = {.of = link->of, .key = *key};
    struct sum more = {.ns = within, .times = 1, .longest = within};
    struct sum *sum = bpf_map_lookup_elem(&chains, &chain);
    if (sum)
        join(sum, &more);
    else
        bpf_map_update_elem(&chains, &chain, &more, BPF_NOEXIST);
}

static long link_past(u32 back, struct link *link)
{
    struct past *past = &link->waker->past[(link->waker->next - 1 - back) & (HISTORY - 1)];
    if (!past->ns || past->to <= link->from)
        return 1;
    link_part(link, &past->key, past->from, past->to, past->ns);
    return 0;
}

ALONE int link_chain(struct thread *thread, struct thread *waker, u64 from, u64 to)
{
    if (!thread || !waker)
        return 0;
    struct link link = {.waker = waker, .of = hash(&thread->wait), .from = from, .to = to};
    bpf_loop(HISTORY, link_past, &link, 0);
    struct key running = {.id = waker->id, .spent = RUNNING, .call = -1};
    if (waker->state == RUNNING)
        link_part(&link, &running, waker->since, to, to - waker->since);
    return 0;
}

/* Ends a wait. */
INLINE void end_blocked(struct thread *thread, u64 now)
{
    struct key *wait = &thread->wait;
    u64 since = thread->since, asked = thread->asked;
    if (wait->by == TIMER && asked && wait->spent != STOPPED && wait->spent != TRACED) {
        if (asked < since)
            asked = since;
        if (asked > now)
            asked = now;
        struct key sleep = {.id = thread->id, .spent = ASLEEP, .call = wait->call};
        add(thread, &sleep, since, asked);
        sleep.spent = wait->spent == FROZEN ? FROZEN : SLEPT_LONGER;
        add(thread, &sleep, asked, now);
    } else {
        add(thread, wait, since, now);
    }
    thread->asked = 0;
    thread->since = now;
}

INLINE void count(struct cpu *cpu)
{
    if (cpu)
        cpu->events++;
}

/* Closes the current stretch, whatever it is. */
INLINE void close_stretch(struct thread *thread, struct cpu *cpu, u64 now)
{
    if (thread->state == RUNNING)
        end_running(thread, cpu, now);
    else if (thread->state == READY)
        end_ready(thread, now);
    else if (thread->state == BLOCKED)
        end_blocked(thread, now);
    else {
        add_plain(thread, UNKNOWN, thread->since, now);
        thread->since = now;
    }
}

/* Who wakes: an interrupt where the CPU serves one. */
INLINE void waker(struct thread *thread, struct cpu *cpu, u8 *by, u32 *who)
{
    struct task_struct *current = bpf_get_current_task_btf();
    *by = THREAD;
    *who = current->pid;
    if (!cpu)
        return;
    if (cpu->timer) {
        *by = TIMER;
        *who = 0;
    } else if (cpu->interrupt) {
        *by = INTERRUPT;
        *who = cpu->line;
    } else if (cpu->softirq) {
        /* What a thread sends to this machine arrives in its own call. */
        struct registers registers = {};
        if (current->pid && !(current->flags & PF_KTHREAD))
            read_registers(current, &registers);
        else
            registers.call = -1;
        if (kind_of(registers.call) != SENDS) {
            *by = SOFTIRQ;
            *who = cpu->vector;
        }
    }
    if (*by == THREAD && thread->named != *who) {
        name_task(current);
        thread->named = *who;
    }
}

SEC("tp_btf/sched_waking")
int waking(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    struct thread *thread = watched(task);
    if (!thread || thread->ended)
        return 0;
    struct control *all = control();
    if (!all || all->ended_at)
        return 0;
    u64 now = bpf_ktime_get_ns();
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    count(cpu);
    u8 by;
    u32 who;
    if (thread->state == RUNNING) {
        /* It gives up its CPU at this moment, or it does not sleep after all. */
        if (!task->on_rq) {
            waker(thread, cpu, &by, &who);
            thread->early_by = by;
            thread->early_who = who;
            thread->early = now;
        }
        return 0;
    }
    if (thread->state != BLOCKED)
        return 0;
    waker(thread, cpu, &by, &who);
    struct key *wait = &thread->wait;
    if (task->__state & FROZEN_STATE)
        wait->spent = FROZEN;
    if (wait->spent != STOPPED && wait->spent != TRACED) {
        wait->by = by;
        wait->who = who;
    }
    u64 since = thread->since;
    if (now - since > LONG_NS && by != TIMER) {
        wait->stack = stack_of(task);
        if (by == THREAD && !thread->aside) {
            struct task_struct *current = bpf_get_current_task_btf();
            struct thread *other = watched(current);
            if (other)
                link_chain(thread, other, since, now);
            else if (!(current->flags & PF_KTHREAD) && current->pid && current->tgid != SELF && all->aside < 256) {
                __sync_fetch_and_add(&all->aside, 1);
                other = begin(current, now, 1);
                if (other)
                    other->state = RUNNING;
            }
        }
    }
    end_blocked(thread, now);
    set_policy(thread, task);
    thread->state = READY;
    thread->held = quota_used_up(task) ? BY_QUOTA : NOT_HELD;
    thread->cpu = task->thread_info.cpu;
    struct cpu *its = cpu_of(thread->cpu);
    thread->ready_at = its ? its->head : 0;
    return 0;
}

/* Adds the turn that ends to its epoch. */
INLINE void note_epoch(struct cpu *cpu, u64 now)
{
    struct turn *turn = &cpu->ring[cpu->head & (RING - 1)];
    struct epoch *epoch = &cpu->epochs[cpu->epoch & (EPOCHS - 1)];
    if (turn->start - epoch->begin > EPOCH_NS) {
        epoch = &cpu->epochs[(cpu->epoch + 1) & (EPOCHS - 1)];
        for (u32 at = 0; at < TENANTS; at++)
            epoch->ns[at] = epoch->tids[at] = 0;
        epoch->begin = turn->start;
        cpu->epoch++;
    }
    if (!turn->tid)
        return;
    for (u32 at = 0; at < TENANTS; at++) {
        if (!epoch->tids[at]) {
            epoch->tids[at] = turn->tid;
            name_turn(turn);
        }
        if (epoch->tids[at] == turn->tid) {
            epoch->ns[at] += now - turn->start;
            return;
        }
    }
}

INLINE void note_turn(struct cpu *cpu, struct task_struct *next, bool watched, u64 now)
{
    note_epoch(cpu, now);
    u32 head = cpu->head + 1;
    struct turn *turn = &cpu->ring[head & (RING - 1)];
    struct task_struct *leader = next->group_leader;
    turn->start = now;
    turn->tid = next->pid;
    turn->tgid = next->tgid;
    turn->prio = next->prio;
    turn->nice = next->static_prio - 120;
    turn->policy = next->policy;
    turn->group = (u64)next->sched_task_group;
    turn->ran_out = 0;
    turn->watched = watched;
    if (turn->tid && !watched) {
        bpf_probe_read_kernel(turn->name, 16, next->comm);
        if (turn->tid != turn->tgid)
            bpf_probe_read_kernel(turn->leader, 16, leader->comm);
        else
            __builtin_memcpy(turn->leader, turn->name, 16);
    }
    cpu->head = head;
}

/* The thread leaves its CPU. */
INLINE void leave(struct thread *thread, struct task_struct *task, struct cpu *cpu, bool preempted, u32 state, u64 now)
{
    /* Else its switch to the CPU was missed. */
    close_stretch(thread, cpu, now);
    set_policy(thread, task);
    thread->cpu = bpf_get_smp_processor_id();
    if (!preempted && (state & TASK_DEAD)) {
        finish(task, thread, now);
        thread->ended = 1;
        return;
    }
    if (!preempted && state) {
        describe(task, thread, state);
        thread->state = BLOCKED;
        return;
    }
    if (BITS(task, dl.dl_throttled) && task->prio < 0) {
        thread->wait = (struct key){.id = thread->id, .spent = BITS(task, dl.dl_yielded) ? ASLEEP : DEADLINE, .call = -1};
        thread->state = BLOCKED;
        return;
    }
    thread->state = READY;
}

SEC("tp_btf/sched_switch")
int switched(u64 *context)
{
    bool preempted = context[0];
    struct task_struct *prev = (void *)context[1], *next = (void *)context[2];
    u32 state = context[3];
    struct control *all = control();
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!all || !cpu || all->ended_at)
        return 0;
    u64 now = bpf_ktime_get_ns();
    struct thread *from = watched(prev), *to = watched(next);
    u8 ran_out = prev->pid ? quota_used_up(prev) : 0;
    cpu->interrupt = cpu->softirq = cpu->timer = 0;
    if (from && !from->ended) {
        cpu->events++;
        leave(from, prev, cpu, preempted, state, now);
        bool limited = from->state == READY && from->rt && next->prio >= 100;
        from->held = ran_out ? BY_QUOTA : limited ? BY_RT_LIMIT : NOT_HELD;
    }
    if (to && !to->ended) {
        cpu->events++;
        if (to->state == BLOCKED) {
            /* The wake-up came before the switch that it undoes, or before the watch. */
            u64 woken = to->early > to->since ? to->early : now;
            to->wait.by = to->early_by;
            to->wait.who = to->early_who;
            end_blocked(to, woken > now ? now : woken);
            to->state = READY;
        }
        close_stretch(to, cpu, now);
        to->early = 0;
        to->state = RUNNING;
        to->cpu = bpf_get_smp_processor_id();
        to->held = NOT_HELD;
    }
    struct task_struct___throttled *form = (void *)prev;
    cpu->ring[cpu->head & (RING - 1)].ran_out = HAS(form->throttled) ? 0 : ran_out;
    cpu->watched = to != NULL;
    if (cpu->busy_vectors) {
        for (u32 vector = 0; vector < VECTORS; vector++)
            cpu->vectors[vector] = 0;
        cpu->busy_vectors = 0;
    }
    note_turn(cpu, next, to != NULL, now);
    if (from && from->state == READY)
        from->ready_at = cpu->head;
    return 0;
}

SEC("tp_btf/sched_migrate_task")
int migrated(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    struct thread *thread = watched(task);
    struct control *all = control();
    if (!thread || thread->ended || thread->state != READY || !all || all->ended_at)
        return 0;
    end_ready(thread, bpf_ktime_get_ns());
    thread->cpu = (u32)context[1];
    struct cpu *cpu = cpu_of(thread->cpu);
    thread->ready_at = cpu ? cpu->head : 0;
    return 0;
}

SEC("tp_btf/sched_process_fork")
int forked(u64 *context)
{
    struct task_struct *parent = (void *)context[0], *child = (void *)context[1];
    struct control *all = control();
    if (!CHILDREN || !all || all->ended_at)
        return 0;
    struct thread *from = watched(parent);
    if (!(from && !from->aside && !from->ended) && !(PROCESS && child->tgid == PROCESS))
        return 0;
    struct thread *thread = begin(child, bpf_ktime_get_ns(), 0);
    if (!thread)
        return 0;
    thread->state = READY;
    thread->cpu = child->thread_info.cpu;
    struct cpu *cpu = cpu_of(thread->cpu);
    thread->ready_at = cpu ? cpu->head : 0;
    return 0;
}

/* The watch may end before the thread leaves its CPU for the last time. */
SEC("tp_btf/sched_process_exit")
int exited(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    struct thread *thread = watched(task);
    struct control *all = control();
    if (!thread || thread->ended || thread->state != RUNNING || !all || all->ended_at)
        return 0;
    u64 now = bpf_ktime_get_ns();
    end_running(thread, cpu_of(bpf_get_smp_processor_id()), now);
    finish(task, thread, now);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int executed(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    if (!EXECUTES || task->tgid != EXECUTES || watched(task))
        return 0;
    struct thread *thread = begin(task, bpf_ktime_get_ns(), 0);
    if (thread) {
        thread->state = RUNNING;
        thread->cpu = bpf_get_smp_processor_id();
    }
    return 0;
}

SEC("tp_btf/signal_generate")
int signalled(u64 *context)
{
    u32 signal = context[0];
    struct task_struct *task = (void *)context[2], *current = bpf_get_current_task_btf();
    if (signal < 19 || signal > 22 || !watched(task))
        return 0;
    u32 process = task->tgid, sender = current->pid;
    name_task(current);
    bpf_map_update_elem(&stoppers, &process, &sender, 0);
    return 0;
}

/* A call waits until an absolute time. */
APART int note_deadline(struct thread *thread, s64 call, u64 deadline, u64 now)
{
    if (!thread)
        return 0;
    struct turns_key key = {.id = thread->id, .call = call};
    struct deadlines first = {.first = deadline, .last = deadline, .count = 1}, *known = bpf_map_lookup_elem(&deadlines, &key);
    if (!known) {
        bpf_map_update_elem(&deadlines, &key, &first, BPF_NOEXIST);
        known = bpf_map_lookup_elem(&deadlines, &key);
        if (!known)
            return 0;
    } else {
        known->count++;
    }
    known->last = deadline;
    known->behind = now > deadline ? now - deadline : 0;
    if (known->behind) {
        known->missed++;
        if (known->behind > known->most)
            known->most = known->behind;
    }
    return 0;
}

/* When a thread's own timer is to end its wait. */
SEC("tp_btf/hrtimer_start")
int timer_started(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu || !cpu->watched || cpu->interrupt || cpu->softirq || cpu->timer)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread *thread = watched(task);
    if (!thread || thread->ended || thread->state != RUNNING)
        return 0;
    struct hrtimer *timer = (void *)context[0];
    if (WAKEUP && (u64)timer->function != WAKEUP)
        return 0;
    struct hrtimer_clock_base *base = NULL;
    s64 expires = 0, offset = 0;
    bpf_probe_read_kernel(&expires, 8, &timer->_softexpires);
    bpf_probe_read_kernel(&base, 8, &timer->base);
    bpf_probe_read_kernel(&offset, 8, &base->offset);
    thread->asked = expires - offset;
    struct registers registers = {};
    read_registers(task, &registers);
    if (kind_of(registers.call) == UNTIL && (registers.arguments[1] & TIMER_ABSTIME) && !thread->aside)
        note_deadline(thread, registers.call, thread->asked, bpf_ktime_get_ns());
    return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int timer_expires(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (cpu)
        cpu->timer = 1;
    struct hrtimer *timer = (void *)context[0];
    if (!REFILL || (u64)timer->function != REFILL)
        return 0;
    u64 key = (u64)timer;
    struct refills first = {.at = {bpf_ktime_get_ns()}, .next = 1}, *all = bpf_map_lookup_elem(&refills, &key);
    if (all)
        all->at[all->next++ & (REFILLS - 1)] = bpf_ktime_get_ns();
    else
        bpf_map_update_elem(&refills, &key, &first, BPF_NOEXIST);
    return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int timer_expired(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (cpu)
        cpu->timer = 0;
    return 0;
}

/* Time of interrupts and softirqs, the outermost of those that nest. */
INLINE void serve(struct cpu *cpu)
{
    if (!cpu->interrupt && !cpu->softirq && cpu->watched)
        cpu->irq_since = bpf_ktime_get_ns();
}

INLINE void served(struct cpu *cpu, u32 vector)
{
    if (cpu->interrupt || cpu->softirq || !cpu->watched || vector >= VECTORS)
        return;
    cpu->vectors[vector] += bpf_ktime_get_ns() - cpu->irq_since;
    cpu->busy_vectors = 1;
}

SEC("tp_btf/irq_handler_entry")
int interrupt_begins(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu)
        return 0;
    serve(cpu);
    u32 line = context[0];
    cpu->interrupt = 1;
    cpu->line = line;
    if (!bpf_map_lookup_elem(&interrupts, &line)) {
        struct name name = {};
        const char *text = NULL;
        struct irqaction *action = (void *)context[1];
        bpf_probe_read_kernel(&text, 8, &action->name);
        bpf_probe_read_kernel_str(name.name, 16, text);
        bpf_map_update_elem(&interrupts, &line, &name, BPF_NOEXIST);
    }
    return 0;
}

SEC("tp_btf/irq_handler_exit")
int interrupt_ends(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu)
        return 0;
    cpu->interrupt = 0;
    served(cpu, VECTORS - 1);
    return 0;
}

SEC("tp_btf/softirq_entry")
int softirq_begins(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu)
        return 0;
    serve(cpu);
    cpu->softirq = 1;
    cpu->vector = context[0];
    return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu)
        return 0;
    cpu->softirq = 0;
    served(cpu, context[0]);
    return 0;
}

/* Now and then: where a watched thread runs. The time itself is in the sums. */
SEC("perf_event")
int sampled(void *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    struct control *all = control();
    if (!cpu || !cpu->watched || !all || all->ended_at)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread *thread = watched(task);
    u32 zero = 0;
    struct stack *stack = bpf_map_lookup_elem(&scratch_samples, &zero);
    if (!thread || !stack || thread->ended || thread->state != RUNNING)
        return 0;
    struct key key = {.id = thread->id, .spent = RUNNING};
    struct registers registers = {};
    read_registers(task, &registers);
    key.call = registers.call;
    key.stack = keep(stack, bpf_get_stack(context, stack, sizeof *stack, 0));
    key.how = (registers.call < 0 ? OUTSIDE_CALL : 0) | (key.stack ? IN_KERNEL : 0);
    u64 one = 1, *known = bpf_map_lookup_elem(&samples, &key);
    if (known)
        __sync_fetch_and_add(known, 1);
    else
        bpf_map_update_elem(&samples, &key, &one, BPF_NOEXIST);
    return 0;
}

/* Over all threads: begins to watch those that exist, or ends the watch. */
SEC("iter/task")
int over_tasks(struct bpf_iter__task *context)
{
    struct task_struct *task = context->task;
    struct control *all = control();
    if (!task || !all)
        return 0;
    struct thread *thread = watched(task);
    if (all->ended_at) {
        if (!thread || thread->ended)
            return 0;
        struct cpu *cpu = cpu_of(thread->cpu);
        if (all->ended_at > thread->since)
            close_stretch(thread, cpu, all->ended_at);
        finish(task, thread, thread->since);
        thread->ended = 1;
        return 0;
    }
    u32 tid = task->pid;
    if (thread || !((PROCESS && task->tgid == PROCESS) || bpf_map_lookup_elem(&targets, &tid)))
        return 0;
    u32 state = task->__state;
    if (state & TASK_DEAD)
        return 0;
    thread = begin(task, bpf_ktime_get_ns(), 0);
    if (!thread)
        return 0;
    set_policy(thread, task);
    thread->cpu = task->thread_info.cpu;
    struct cpu *cpu = cpu_of(thread->cpu);
    thread->ready_at = cpu ? cpu->head : 0;
    if (task->on_cpu)
        thread->state = RUNNING;
    else if (task->on_rq) {
        thread->held = quota_used_up(task) ? BY_QUOTA : NOT_HELD;
        thread->state = READY;
    } else {
        describe(task, thread, state);
        thread->state = BLOCKED;
    }
    return 0;
}
