/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Sums of stretches. */
#ifndef PUNCTUAL_SUMS_H
#define PUNCTUAL_SUMS_H

#include "layout.h"

#define FILE_TYPE 0xf000

INLINE struct control *control(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&shared, &zero);
}

INLINE struct cpu *cpu_of(u32 number)
{
    return bpf_map_lookup_elem(&cpus, &number);
}

/* A thread may run on another CPU while the watch over it begins: without a number, its time would be nobody's. */
INLINE struct thread *watched(struct task_struct *task)
{
    struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
    return thread && thread->since ? thread : NULL;
}

/* Kernels without groups of threads have one for all. */
INLINE u64 group_of(struct task_struct *task)
{
    return HAS(task->sched_task_group) ? (u64)task->sched_task_group : 0;
}

INLINE void drop(void)
{
    struct control *all = control();
    if (all)
        __sync_fetch_and_add(&all->dropped, 1);
}

/* The first word of a key. */
INLINE u64 kind_word(u32 id, u8 spent, u8 by, s16 call)
{
    return id | (u64)spent << 32 | (u64)by << 40 | (u64)(u16)call << 48;
}

INLINE bool same(const struct key *one, const struct key *other)
{
    return one->kind == other->kind && one->who_stack == other->who_stack && one->thing == other->thing && one->place == other->place;
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

/* Adds to an entry of `sums`, or makes it. */
INLINE u32 keep_sum(struct control *all, const struct key *key, const struct sum *more, u32 may_make)
{
    struct sum *sum = bpf_map_lookup_elem(&sums, key);
    if (!sum) {
        if (!may_make)
            return 0;
        if (!bpf_map_update_elem(&sums, key, more, BPF_NOEXIST)) {
            __sync_fetch_and_add(&all->kept, 1);
            return 1;
        }
        sum = bpf_map_lookup_elem(&sums, key);
        if (!sum)
            return 0;
    }
    join(sum, more);
    return 1;
}

/* Moves a slot to `sums`, where user space reads. Where there is no room for its details, it adds to a sum with few of them. */
ALONE int flush(struct thread *thread, struct slot *slot)
{
    if (!thread || !slot || !slot->sum.times)
        return 0;
    struct control *all = control();
    if (!all)
        return 0;
    /* Linux 6.1 takes keys and values of maps from the stack, and not from what a pointer of an argument leads to. */
    struct key key = slot->key;
    struct sum sum = slot->sum;
    if (!keep_sum(all, &key, &sum, all->kept < DETAILED)) {
        const struct key *whole = &slot->key;
        key = (struct key){.id = whole->id, .spent = whole->spent, .call = whole->call, .how = whole->how};
        key.mode = whole->mode & FILE_TYPE;
        key.by = whole->by == TIMER ? TIMER : NOBODY;
        __sync_fetch_and_add(&all->dropped, sum.times);
        if (!keep_sum(all, &key, &sum, 1)) {
            struct sum *rough = &thread->rough.of[whole->spent & 15];
            rough->ns += sum.ns;
            rough->times += sum.times;
            if (sum.longest > rough->longest)
                rough->longest = sum.longest;
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

/* The slot of a key. Two keys of the same set have one each, so a thread that alternates between few kinds of stretches keeps its sums
 * here. */
INLINE struct slot *slot_of(struct thread *thread, const struct key *key)
{
    if (key->spent == RUNNING) {
        if (!thread->running.sum.times)
            thread->running.key = *key;
        return &thread->running;
    }
    u32 set = (key->spent * 5 + key->call * 3 + key->who + (u32)(key->thing >> 3) + key->stack) & (SLOTS / 2 - 1);
    struct slot *one = &thread->slots[2 * set], *other = &thread->slots[2 * set + 1], *slot;
    if (one->sum.times && same(&one->key, key))
        return one;
    if (other->sum.times && same(&other->key, key))
        return other;
    slot = one->sum.times && (!other->sum.times || (thread->evicted++ & 1)) ? other : one;
    flush(thread, slot);
    slot->key = *key;
    return slot;
}

INLINE void extend(struct sum *sum, u64 ns)
{
    sum->ns += ns;
    sum->times++;
    if (ns > sum->longest)
        sum->longest = ns;
}

/* Adds a stretch to its sum. */
ALONE int add(struct thread *thread, const struct key *key, u64 from, u64 to)
{
    if (!thread || !key || to <= from)
        return 0;
    extend(&slot_of(thread, key)->sum, to - from);
    remember(thread, key, from, to);
    return 0;
}

INLINE void add_plain(struct thread *thread, u8 spent, u64 from, u64 to)
{
    struct key key = {.kind = kind_word(thread->id, spent, NOBODY, -1)};
    add(thread, &key, from, to);
}

/* Adds running time, whose key never changes. */
INLINE void add_running(struct thread *thread, u64 from, u64 to)
{
    struct slot *slot = &thread->running;
    struct past *last = &thread->past[(thread->next - 1) & (HISTORY - 1)];
    if (slot->sum.times && to > from && to - from < BRIEF_NS && last->to) {
        extend(&slot->sum, to - from);
        last->to = to;
        last->ns += to - from;
    } else {
        add_plain(thread, RUNNING, from, to);
    }
}

#endif
