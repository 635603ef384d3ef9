/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Time ready: who had the CPU meanwhile, or what kept the thread from it. */
#ifndef PUNCTUAL_READY_H
#define PUNCTUAL_READY_H

#include "sums.h"

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
    u64 from, to, refill;
    u32 at, head, held;
    /* Who had the CPU since then, in one turn or several: not added yet. */
    u32 who;
    u64 since;
};

/* Pointers in what is an argument of a function that is checked alone are numbers to it, so they are beside it. */
struct walker {
    struct thread *thread;
    struct cpu *cpu;
    struct walk walk;
};

/* Adds the time of who had the CPU last, up to now. */
INLINE void end_turns(struct walk *walk, struct thread *thread)
{
    struct key key = {.kind = kind_word(thread->id, READY, walk->who ? THREAD : NOBODY, -1), .who_stack = walk->who};
    add(thread, &key, walk->since, walk->from);
    walk->since = walk->from;
}

/* The number in `names` of all who are called so; the first of them gives them theirs. */
APART u32 number_of(struct alias *alias, u32 tid, u32 tgid)
{
    struct control *all = control();
    if (!alias || !all)
        return ALIASES;
    u32 *known = bpf_map_lookup_elem(&aliases, alias);
    if (known)
        return *known;
    u32 number = ALIASES + 1 + (u32)__sync_fetch_and_add(&all->last_alias, 1);
    if (bpf_map_update_elem(&aliases, alias, &number, BPF_NOEXIST)) {
        /* Another CPU was first, or there is no room. */
        known = bpf_map_lookup_elem(&aliases, alias);
        return known ? *known : ALIASES;
    }
    struct name name = {.tid = tid, .tgid = tgid, .nice = alias->nice, .policy = alias->policy, .prio = alias->nice + 120};
    if (alias->policy == FIFO || alias->policy == ROUND_ROBIN)
        name.prio = 99 - alias->rt_priority;
    else if (alias->policy == BY_DEADLINE)
        name.prio = -1;
    __builtin_memcpy(name.name, alias->name, 16);
    __builtin_memcpy(name.leader, alias->leader, 16);
    bpf_map_update_elem(&names, &number, &name, BPF_NOEXIST);
    return number;
}

/* Who is watched, or is to be, and who watches, is not one with others of its name. */
INLINE void call_alias(struct task_struct *task, bool is_watched, struct alias *alias)
{
    struct task_struct *leader = task->group_leader;
    const u64 *own = (const u64 *)task->comm, *of_leader = (const u64 *)leader->comm;
    alias->name[0] = own[0];
    alias->name[1] = own[1];
    alias->leader[0] = of_leader[0];
    alias->leader[1] = of_leader[1];
    u32 tgid = task->tgid;
    bool is_told_apart = is_watched || tgid == SELF || (EXECUTES && tgid == EXECUTES) || (PROCESS && tgid == PROCESS);
    alias->tgid = is_told_apart ? tgid : 0;
    alias->nice = task->static_prio - 120;
    alias->policy = task->policy;
    alias->rt_priority = task->rt_priority;
}

/* The same for a watched thread, which keeps it. */
INLINE u32 own_number(struct thread *thread, struct task_struct *task)
{
    const u64 *name = (const u64 *)task->comm;
    u32 nice = task->static_prio ^ task->policy << 16 ^ task->rt_priority << 24;
    if (!thread->own_as || thread->own_name[0] != name[0] || thread->own_name[1] != name[1] || thread->own_nice != nice) {
        struct alias alias = {};
        call_alias(task, 1, &alias);
        thread->own_name[0] = alias.name[0];
        thread->own_name[1] = alias.name[1];
        thread->own_nice = nice;
        thread->own_as = number_of(&alias, task->pid, task->tgid);
    }
    return thread->own_as;
}

INLINE u32 number_of_turn(struct turn *turn)
{
    if (!turn->as) {
        struct alias alias = turn->alias;
        turn->as = number_of(&alias, turn->tid, turn->tgid);
    }
    return turn->as;
}

/* The thread is held no longer since this time. */
INLINE void let_go(struct walk *walk, struct thread *thread, u64 time)
{
    struct key key = {.id = thread->id, .spent = spent_held(walk->held), .call = -1};
    if (time > walk->to)
        time = walk->to;
    if (time > walk->from) {
        add(thread, &key, walk->from, time);
        walk->since = walk->from = time;
    }
    walk->held = NOT_HELD;
}

ALONE int piece(struct walk *walk, struct thread *thread, struct cpu *cpu)
{
    if (!walk || !thread || !cpu)
        return 1;
    struct turn *turn = &cpu->ring[walk->at & (RING - 1)];
    u64 until = walk->to;
    if (walk->at != walk->head) {
        until = cpu->ring[(walk->at + 1) & (RING - 1)].start;
        if (until > walk->to)
            until = walk->to;
    }
    if (walk->held == BY_QUOTA) {
        if (turn->tid && turn->group == thread->group)
            let_go(walk, thread, turn->start);
        else if (walk->refill && walk->refill < until)
            let_go(walk, thread, walk->refill);
    } else if (walk->held == BY_RT_LIMIT && turn->tid && turn->prio < 100) {
        let_go(walk, thread, turn->start);
    }
    if (!walk->held && until > walk->from && thread->rt && turn->prio >= 100 && until - walk->from > RT_WAIT_NS) {
        end_turns(walk, thread);
        walk->held = BY_RT_LIMIT;
    }
    if (!walk->held && until > walk->from) {
        u32 who = turn->tid ? number_of_turn(turn) : 0;
        if (who != walk->who)
            end_turns(walk, thread);
        walk->who = who;
        walk->from = until;
    }
    if (!walk->held && turn->ran_out && turn->group == thread->group) {
        end_turns(walk, thread);
        walk->held = BY_QUOTA;
        walk->refill = refilled(thread, until);
    }
    if (walk->at == walk->head || until >= walk->to)
        return 1;
    walk->at++;
    return 0;
}

static long next_piece(u32 count, struct walker *walker)
{
    return piece(&walker->walk, walker->thread, walker->cpu) != 0;
}

/* The same by epochs, where the ring does not reach back. */
ALONE int epoch_piece(struct walk *walk, struct thread *thread, struct cpu *cpu)
{
    if (!walk || !thread || !cpu)
        return 1;
    struct epoch *epoch = &cpu->epochs[walk->at & (EPOCHS - 1)];
    u64 begin = epoch->begin, end = cpu->epochs[(walk->at + 1) & (EPOCHS - 1)].begin;
    u32 last = walk->at == walk->head;
    walk->at++;
    if (last || end > walk->to)
        end = walk->to;
    if (begin < walk->from)
        begin = walk->from;
    if (!epoch->begin || end <= begin)
        return last;
    struct key key = {.id = thread->id, .spent = READY, .call = -1};
    add(thread, &key, walk->from, begin);
    u64 whole = end - epoch->begin, within = end - begin;
    for (u32 at = 0; at < TENANTS; at++) {
        u64 share = whole ? (epoch->ns[at] >> 10) * within / ((whole >> 10) + 1) : 0;
        if (share > end - begin)
            share = end - begin;
        if (!epoch->tids[at] || !share)
            continue;
        key.by = THREAD;
        key.who = epoch->as[at];
        add(thread, &key, begin, begin + share);
        begin += share;
    }
    key.by = NOBODY;
    key.who = 0;
    add(thread, &key, begin, end);
    walk->since = walk->from = end;
    return last || end >= walk->to;
}

static long next_epoch(u32 count, struct walker *walker)
{
    return epoch_piece(&walker->walk, walker->thread, walker->cpu) != 0;
}

/* The most frequent case, where one thread had the CPU all the while. Returns whether it is. */
INLINE bool end_in_one_turn(struct thread *thread, struct cpu *cpu, u64 now)
{
    struct turn *turn = &cpu->ring[cpu->head & (RING - 1)];
    if (thread->ready_at != cpu->head || thread->held || !turn->tid || turn->ran_out || (thread->rt && turn->prio >= 100))
        return 0;
    struct key key = {.kind = kind_word(thread->id, READY, THREAD, -1), .who_stack = number_of_turn(turn)};
    add(thread, &key, thread->since, now);
    thread->since = now;
    return 1;
}

ALONE int end_ready(struct thread *thread, u64 now)
{
    if (!thread)
        return 0;
    struct cpu *cpu = cpu_of(thread->cpu);
    if (cpu && end_in_one_turn(thread, cpu, now))
        return 0;
    struct walker walker = {.thread = thread, .cpu = cpu};
    struct walk *walk = &walker.walk;
    walk->from = walk->since = thread->since;
    walk->to = now;
    walk->held = thread->held;
    if (cpu && now > thread->since) {
        if (walk->held == BY_QUOTA)
            walk->refill = refilled(thread, thread->since);
        u32 head = cpu->head, first = thread->ready_at;
        if (head - first >= RING - 1) {
            /* The ring no longer has who ran first. */
            first = head - (RING - 2);
            u64 known = cpu->ring[first & (RING - 1)].start;
            if (walk->held == BY_QUOTA && walk->refill && walk->refill < known)
                let_go(walk, thread, walk->refill);
            if (!walk->held && known > walk->from) {
                walk->to = known < now ? known : now;
                walk->head = cpu->epoch;
                walk->at = cpu->epoch - (EPOCHS - 2);
                bpf_loop(EPOCHS, next_epoch, &walker, 0);
                walk->to = now;
            }
        }
        walk->head = head;
        walk->at = first;
        if (first == head)
            piece(walk, thread, cpu);
        else
            bpf_loop(RING, next_piece, &walker, 0);
    }
    end_turns(walk, thread);
    if (walk->from < now)
        add_plain(thread, spent_held(walk->held), walk->from, now);
    thread->held = walk->held;
    thread->since = now;
    return 0;
}

#endif
