/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* The begin and the end of a watch over a thread, and of its waits. */
#ifndef PUNCTUAL_THREADS_H
#define PUNCTUAL_THREADS_H

#include "waits.h"

/* What /proc/TID/schedstat shows. */
INLINE void read_counters(struct task_struct *task, u64 *ran, u64 *waited)
{
    *ran = task->se.sum_exec_runtime;
    *waited = HAS(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Begins to watch a thread, which no program sees before it is shown(). Those `aside` are watched for the chains alone. */
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
    thread->state = UNKNOWN;
    thread->aside = aside;
    thread->group = group_of(task);
    thread->ran = info.ran_before;
    return thread;
}

/* The thread may be on another CPU: what is known of it is written before this. */
INLINE void shown(struct thread *thread, u64 now)
{
    __sync_lock_test_and_set(&thread->since, now);
}

INLINE void set_policy(struct thread *thread, struct task_struct *task)
{
    thread->prio = task->prio;
    thread->rt = task->prio >= 0 && task->prio < 100;
    thread->group = group_of(task);
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

/* Moves the sums for which `sums` has no room. */
APART int flush_rough(struct thread *thread)
{
    u64 all = 0;
    u32 id = thread->id;
    for (u32 at = 0; at < 16; at++)
        all += thread->rough.of[at].times;
    if (!all)
        return 0;
    struct rough *known = bpf_map_lookup_elem(&roughs, &id);
    if (!known) {
        bpf_map_update_elem(&roughs, &id, &thread->rough, BPF_NOEXIST);
    } else {
        for (u32 at = 0; at < 16; at++)
            join(&known->of[at], &thread->rough.of[at]);
    }
    for (u32 at = 0; at < 16; at++)
        thread->rough.of[at].ns = thread->rough.of[at].times = 0;
    return 0;
}

/* Writes what is known of a thread: all that is still in its slots, its name and its policy. */
APART int finish(struct task_struct *task, struct thread *thread, u64 now)
{
    if (!task || !thread)
        return 0;
    for (u32 at = 0; at < SLOTS; at++)
        flush(thread, &thread->slots[at]);
    flush(thread, &thread->running);
    flush_rough(thread);
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
    info->evicted = thread->evicted;
    info->slack = task->timer_slack_ns;
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
    if (!sum && bpf_map_update_elem(&chains, &chain, &more, BPF_NOEXIST)) {
        /* Another CPU was first, or there is no room. */
        sum = bpf_map_lookup_elem(&chains, &chain);
        if (!sum)
            drop();
    }
    if (sum)
        join(sum, &more);
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
ALONE int end_blocked(struct thread *thread, u64 now)
{
    if (!thread)
        return 0;
    struct key *wait = &thread->wait;
    u64 since = thread->since, asked = thread->asked;
    if (wait->by == TIMER && asked && wait->spent != STOPPED && wait->spent != TRACED) {
        if (asked < since)
            asked = since;
        if (asked > now)
            asked = now;
        struct key sleep = {.kind = kind_word(thread->id, ASLEEP, NOBODY, wait->call)};
        /* A wait at a futex that timed out was for the same lock or signal as those that did not. */
        if (!wait->mode)
            sleep.thing = wait->thing;
        if (wait->how & RETRIES) {
            thread->refused.call = wait->call;
            add(thread, &thread->refused, since, asked);
        } else {
            add(thread, &sleep, since, asked);
        }
        sleep.thing = 0;
        sleep.spent = wait->spent == FROZEN ? FROZEN : SLEPT_LONGER;
        add(thread, &sleep, asked, now);
    } else {
        add(thread, wait, since, now);
    }
    thread->asked = 0;
    thread->since = now;
    return 0;
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

/* The wake-up was not seen: a kernel may hide those by interrupts that come while certain threads run. A timer that was due before is
 * taken for it. */
INLINE void woken_unseen(struct thread *thread, u64 now)
{
    struct key *wait = &thread->wait;
    /* Out of a deadline's runtime, the kernel wakes nobody: it puts the thread back. */
    if (wait->spent != BLOCKED)
        return;
    wait->by = thread->asked && thread->asked <= now ? TIMER : NOBODY;
    wait->who = 0;
}

/* A thread runs whose switch to its CPU was not seen, maybe its wake-up neither. The kernel's count of its CPU time says since when. */
INLINE void arrived_unseen(struct thread *thread, struct task_struct *task, u64 now)
{
    u64 ran = task->se.sum_exec_runtime - thread->ran;
    u64 since = ran > now - thread->since ? thread->since : now - ran;
    if (thread->state == BLOCKED)
        woken_unseen(thread, since);
    close_stretch(thread, NULL, since);
    thread->state = RUNNING;
    thread->held = NOT_HELD;
    thread->early = 0;
}

#endif
