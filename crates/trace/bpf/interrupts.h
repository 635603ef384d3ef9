/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Programs at timers, interrupts and softirqs. */
#ifndef PUNCTUAL_INTERRUPTS_H
#define PUNCTUAL_INTERRUPTS_H

#include "threads.h"

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
        u64 step = deadline - known->last, before = known->step;
        if ((step > before ? step - before : before - step) <= ALIKE_NS)
            known->regular++;
        known->step = step;
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

/* A read(2) of a timerfd with a period starts its timer again. `next` is the expiration to come: those from the one after the last read on
 * are over, and the value that the call returns is their number. */
APART int note_read(struct thread *thread, struct hrtimer *timer, s64 call, u64 next)
{
    struct timerfd_ctx *file = (void *)timer;
    u64 period = 0;
    if (!thread || !timer)
        return 0;
    bpf_probe_read_kernel(&period, 8, &file->tintv);
    if (!period || period > next)
        return 0;
    struct turns_key key = {.id = thread->id, .call = call, .timer = (u64)timer};
    u64 last = next - period;
    struct deadlines first = {.first = last, .last = last, .count = 1}, *known = bpf_map_lookup_elem(&deadlines, &key);
    if (!known) {
        bpf_map_update_elem(&deadlines, &key, &first, BPF_NOEXIST);
        return 0;
    }
    u64 over = last > known->last ? (last - known->last) / period : 0;
    known->last = last;
    if (!over || over > 1 << 20)
        return 0;
    known->count += over;
    known->missed += over - 1;
    known->behind = (over - 1) * period;
    if (known->behind > known->most)
        known->most = known->behind;
    return 0;
}

/* When a thread's own timer is to end its wait. */
SEC("tp_btf/hrtimer_start")
int timer_started(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu || cpu->interrupt || cpu->softirq || cpu->timer)
        return 0;
    /* Others start themselves anew in the interrupt, maybe of a thread whose CPU time the kernel has not counted yet. */
    struct hrtimer *timer = (void *)context[0];
    u64 function = (u64)timer->function;
    bool of_file = TIMERFD && function == TIMERFD;
    if (WAKEUP && function != WAKEUP && !of_file)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    bool seen = cpu->ring[cpu->head & (RING - 1)].tid == (u32)task->pid;
    struct thread *thread = seen && !cpu->watched ? NULL : watched(task);
    if (!thread || thread->ended)
        return 0;
    if (!seen && (thread->state == READY || thread->state == BLOCKED))
        arrived_unseen(thread, task, bpf_ktime_get_ns());
    if (thread->state != RUNNING)
        return 0;
    struct hrtimer_clock_base *base = NULL;
    s64 expires = 0, offset = 0;
    bpf_probe_read_kernel(&expires, 8, &timer->_softexpires);
    bpf_probe_read_kernel(&base, 8, &timer->base);
    bpf_probe_read_kernel(&offset, 8, &base->offset);
    struct registers registers = {};
    read_registers(task, &registers);
    if (of_file) {
        if (kind_of(registers.call) == DESCRIPTOR && !thread->aside)
            note_read(thread, timer, registers.call, expires - offset);
        return 0;
    }
    thread->asked = expires - offset;
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
    u64 now = bpf_ktime_get_ns();
    cpu->vectors[vector] += now - cpu->irq_since;
    cpu->busy_vectors = 1;
    /* The softirqs of one interrupt follow each other, by their numbers. */
    if (vector >= DEVICES || (vector < NET_RX && cpu->irq_since - cpu->irq_ended < AFTER_NS))
        cpu->irq_ended = now;
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
    served(cpu, DEVICES);
    return 0;
}

/* The CPU's own timer, which x86 serves beside the interrupts of devices. */
SEC("tp_btf/local_timer_entry")
int tick_begins(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (cpu)
        serve(cpu);
    return 0;
}

SEC("tp_btf/local_timer_exit")
int tick_ends(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (cpu)
        served(cpu, TICKS);
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
    /* What a thread sends to this machine arrives in its own call: the softirq does not follow an interrupt. */
    cpu->own = cpu->watched && cpu->vector == NET_RX && !cpu->interrupt && cpu->irq_since - cpu->irq_ended > AFTER_NS &&
               running_call(bpf_get_current_task_btf()) >= 0;
    return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *context)
{
    struct cpu *cpu = cpu_of(bpf_get_smp_processor_id());
    if (!cpu)
        return 0;
    cpu->softirq = 0;
    if (!cpu->own)
        served(cpu, context[0]);
    cpu->own = 0;
    return 0;
}

#endif
