/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Where the wall time of the watched threads goes: each has a current stretch. Every event that ends it adds it to a sum, and begins the
 * next one at the same time. So the sums of a thread are its wall time, whatever was missed.
 *
 * The layouts of layout.h are those of src/budget/raw.rs. */
#include "interrupts.h"
#include "locks.h"
#include "threads.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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
        if (kind_of(running_call(current)) != SENDS) {
            *by = SOFTIRQ;
            *who = cpu->vector;
        }
    }
    if (*by != THREAD)
        return;
    u64 letters = *(const u64 *)current->comm;
    if (thread->named != *who || thread->letters != letters) {
        struct alias alias = {};
        struct thread *other = watched(current);
        call_alias(current, other && !other->aside, &alias);
        thread->named_as = number_of(&alias, current->pid, current->tgid);
        thread->named = *who;
        thread->letters = letters;
    }
    *who = thread->named_as;
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
    u8 spent = task->__state & FROZEN_STATE ? FROZEN : wait->spent;
    /* A signal ends a wait for a child too: whoever sends it is not the child. */
    bool is_signal = kind_of(wait->call) == CHILD && by == THREAD && !(bpf_get_current_task_btf()->flags & PF_EXITING);
    if (is_signal)
        by = NOBODY;
    if (spent != STOPPED && spent != TRACED) {
        wait->kind = kind_word(thread->id, spent, by, wait->call);
        wait->who_stack = is_signal ? 0 : who;
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
                if (other) {
                    other->state = RUNNING;
                    shown(other, now);
                }
            }
        }
    }
    if (now - since > LONG_NS)
        keep_caller(thread, since, now - since);
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
ALONE int note_epoch(struct cpu *cpu, u64 now)
{
    if (!cpu)
        return 0;
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
        return 0;
    for (u32 at = 0; at < TENANTS; at++) {
        if (!epoch->tids[at]) {
            epoch->tids[at] = turn->tid;
            epoch->as[at] = number_of_turn(turn);
        }
        if (epoch->tids[at] == turn->tid) {
            epoch->ns[at] += now - turn->start;
            return 0;
        }
    }
    return 0;
}

INLINE void note_turn(struct cpu *cpu, struct task_struct *next, struct thread *to, u64 now)
{
    note_epoch(cpu, now);
    u32 head = cpu->head + 1;
    struct turn *turn = &cpu->ring[head & (RING - 1)];
    turn->start = now;
    turn->tid = next->pid;
    turn->tgid = next->tgid;
    turn->prio = next->prio;
    turn->group = group_of(next);
    turn->ran_out = 0;
    turn->as = 0;
    if (to && !to->aside)
        turn->as = own_number(to, next);
    else if (turn->tid)
        call_alias(next, 0, &turn->alias);
    cpu->head = head;
}

/* The thread leaves its CPU. */
INLINE void leave(struct thread *thread, struct task_struct *task, struct cpu *cpu, bool preempted, u32 state, u64 now)
{
    /* In one function with its caller: Linux 6.12 and older ones have 512 bytes of stack for a chain of calls. */
    if (thread->state != RUNNING)
        arrived_unseen(thread, task, now);
    end_running(thread, cpu, now);
    thread->ran = task->se.sum_exec_runtime;
    set_policy(thread, task);
    if (!preempted && (state & TASK_DEAD)) {
        finish(task, thread, now);
        thread->ended = 1;
        return;
    }
    if (!preempted && state) {
        describe(task, thread, state);
        read_caller(thread, now);
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
    u32 number = bpf_get_smp_processor_id();
    struct cpu *cpu = cpu_of(number);
    if (!all || !cpu || all->ended_at)
        return 0;
    u64 now = bpf_ktime_get_ns();
    struct thread *from = watched(prev), *to = watched(next);
    u8 ran_out = prev->pid ? quota_used_up(prev) : 0;
    cpu->interrupt = cpu->softirq = cpu->timer = cpu->own = 0;
    if (from && !from->ended) {
        cpu->events++;
        leave(from, prev, cpu, preempted, state, now);
        from->cpu = number;
        bool limited = from->state == READY && from->rt && next->prio >= 100;
        from->held = ran_out ? BY_QUOTA : limited ? BY_RT_LIMIT : NOT_HELD;
    }
    if (to && !to->ended) {
        cpu->events++;
        if (to->state == BLOCKED) {
            /* The wake-up came before the switch that it undoes, or before the watch. */
            u64 woken = now;
            if (to->early > to->since) {
                woken = to->early < now ? to->early : now;
                to->wait.by = to->early_by;
                to->wait.who = to->early_who;
            } else {
                woken_unseen(to, now);
            }
            end_blocked(to, woken);
            to->state = READY;
        }
        close_stretch(to, cpu, now);
        to->early = 0;
        to->state = RUNNING;
        to->cpu = number;
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
    note_turn(cpu, next, to, now);
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
    u64 now = bpf_ktime_get_ns();
    struct thread *thread = begin(child, now, 0);
    if (!thread)
        return 0;
    thread->state = READY;
    thread->cpu = child->thread_info.cpu;
    struct cpu *cpu = cpu_of(thread->cpu);
    thread->ready_at = cpu ? cpu->head : 0;
    shown(thread, now);
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
    u64 now = bpf_ktime_get_ns();
    struct thread *thread = begin(task, now, 0);
    if (thread) {
        thread->state = RUNNING;
        thread->cpu = bpf_get_smp_processor_id();
        shown(thread, now);
    }
    return 0;
}

SEC("tp_btf/signal_generate")
int signalled(u64 *context)
{
    u32 signal = context[0], result = context[4];
    struct task_struct *task = (void *)context[2], *current = bpf_get_current_task_btf();
    /* One that is ignored, or waits already, stops nothing. */
    if (signal < FIRST_STOP || signal > LAST_STOP || result == 1 || result == 2 || !watched(task))
        return 0;
    u64 info = context[1];
    s32 code = 0;
    /* After its number and errno comes where a signal is from: positive is the kernel (sigaction(2)). */
    if (info != SENT_BARELY && info != SENT_BY_KERNEL)
        bpf_probe_read_kernel(&code, 4, (const void *)(info + 8));
    u32 process = task->tgid;
    struct stopper stopper = {.sender = current->pid, .signal = signal};
    stopper.by_kernel = info == SENT_BY_KERNEL || code > 0;
    if (!stopper.by_kernel)
        name_task(current);
    bpf_map_update_elem(&stoppers, &process, &stopper, 0);
    return 0;
}

/* Now and then: where a watched thread runs, with the ms from one sample to the next. The time itself is in the sums. */
INLINE void sample(void *context, u64 ms)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    struct control *all = control();
    if (!cpu || !cpu->watched || !all || all->ended_at)
        return;
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread *thread = watched(task);
    u32 zero = 0;
    struct stack *stack = bpf_map_lookup_elem(&scratch_samples, &zero);
    if (!thread || !stack || thread->ended || thread->state != RUNNING)
        return;
    struct key key = {.id = thread->id, .spent = RUNNING};
    struct registers registers = {};
    read_registers(task, &registers);
    key.call = registers.call;
    key.stack = keep(stack, bpf_get_stack(context, stack, sizeof *stack, 0));
    key.how = (registers.call < 0 ? OUTSIDE_CALL : 0) | (key.stack ? IN_KERNEL : 0);
    key.thing = key.stack ? 0 : registers.instruction;
    u64 *known = bpf_map_lookup_elem(&samples, &key);
    if (!known && !bpf_map_update_elem(&samples, &key, &ms, BPF_NOEXIST))
        return;
    if (!known) {
        /* No room: where it runs is not known. */
        key.thing = 0;
        known = bpf_map_lookup_elem(&samples, &key);
    }
    if (known)
        __sync_fetch_and_add(known, ms);
    else
        bpf_map_update_elem(&samples, &key, &ms, BPF_NOEXIST);
}

SEC("perf_event")
int sampled_often(void *context)
{
    sample(context, 1);
    return 0;
}

SEC("perf_event")
int sampled(void *context)
{
    sample(context, 4);
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
    u64 now = bpf_ktime_get_ns();
    thread = begin(task, now, 0);
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
    shown(thread, now);
    return 0;
}
