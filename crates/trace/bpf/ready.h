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

#endif
