/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Time on the CPU, and what a thread waits for. */
#ifndef PUNCTUAL_WAITS_H
#define PUNCTUAL_WAITS_H

#include "ready.h"

/* What interrupts took of the time since the stretch began. Returns when its rest begins. */
ALONE u64 end_interrupts(struct thread *thread, struct cpu *cpu, u64 now)
{
    if (!thread || !cpu)
        return now;
    u64 from = thread->since;
    for (u32 vector = 0; vector < VECTORS; vector++) {
        u64 ns = cpu->vectors[vector];
        if (!ns)
            continue;
        cpu->vectors[vector] = 0;
        if (ns > now - from)
            ns = now - from;
        struct key key = {.kind = kind_word(thread->id, INTERRUPTED, vector < DEVICES ? SOFTIRQ : INTERRUPT, -1)};
        key.who_stack = vector < DEVICES ? vector : vector == TICKS ? OWN_TIMER : cpu->line;
        add(thread, &key, from, from + ns);
        from += ns;
    }
    cpu->busy_vectors = 0;
    return from;
}

/* Running, less what interrupts took. */
INLINE void end_running(struct thread *thread, struct cpu *cpu, u64 now)
{
    u64 from = cpu && cpu->busy_vectors ? end_interrupts(thread, cpu, now) : thread->since;
    add_running(thread, from, now);
    thread->since = now;
}

struct registers {
    s64 call;
    u64 arguments[3];
    /* Where the program runs, or goes on after the call. */
    u64 instruction;
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
        found->instruction = x86->ip;
        bool narrow = found->call >= 0 && ((struct thread_info___x86 *)&task->thread_info)->status & TS_COMPAT;
        found->arguments[0] = narrow ? x86->bx : x86->di;
        found->arguments[1] = narrow ? x86->cx : x86->si;
        found->arguments[2] = x86->dx;
        if (narrow)
            found->call = CALLS_OF_32_BITS[found->call & 511];
    } else if (HAS(arm->syscallno)) {
        found->call = arm->syscallno;
        found->instruction = arm->pc;
        found->arguments[0] = arm->orig_x0;
        found->arguments[1] = arm->regs[1];
        found->arguments[2] = arm->regs[2];
        if (found->call >= 0 && ((struct thread_info___arm64 *)&task->thread_info)->flags & TIF_32BIT)
            found->call = CALLS_OF_32_BITS[found->call & 511];
    }
    if (found->call < 0 || found->call >= 4096)
        found->call = -1;
}

INLINE u8 kind_of(s64 call)
{
    return call >= 0 && call < 512 ? CALLS[call & 511] : OTHER_CALL;
}

/* The system call in which this thread runs; -1: none. */
INLINE s64 running_call(struct task_struct *current)
{
    struct registers registers = {.call = -1};
    if (current->pid && !(current->flags & PF_KTHREAD))
        read_registers(current, &registers);
    return registers.call;
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

/* Types of files, as in i_mode. */
#define CHARACTERS 2
#define BLOCKS 6
#define REGULAR 8

/* `before` is what the thread waited for last: its file has a name already. */
INLINE void read_file(struct task_struct *task, u64 descriptor, struct key *key, const struct key *before)
{
    struct files_struct *open = task->files;
    if (!open)
        return;
    struct fdtable *table = open->fdt;
    if (!table || descriptor >= table->max_fds)
        return;
    struct file **all = table->fd, *file = NULL;
    bpf_probe_read_kernel(&file, 8, all + descriptor);
    if (!file)
        return;
    struct inode *inode = NULL;
    u16 mode = 0;
    bpf_probe_read_kernel(&inode, 8, &file->f_inode);
    bpf_probe_read_kernel(&mode, 2, &inode->i_mode);
    u32 type = mode >> 12, device = 0;
    /* Pipes, sockets and the kernel's own files have no name: waits at any of them are one sum. */
    if (type == REGULAR || type == BLOCKS || type == CHARACTERS) {
        struct super_block *block = NULL;
        unsigned long number = 0;
        bpf_probe_read_kernel(&number, 8, &inode->i_ino);
        bpf_probe_read_kernel(&block, 8, &inode->i_sb);
        bpf_probe_read_kernel(&device, 4, &block->s_dev);
        key->thing = number;
        key->place = device | (u64)mode << 32;
        bool named = before->mode == mode && before->thing == number && before->device == device;
        if (!named)
            name_file(file, key);
        return;
    }
    key->place = (u64)mode << 32;
}

/* The word of a futex whose owner sleeps in the kernel: glibc's locks, musl's and Rust's have such values. */
INLINE u32 owned(const struct registers *registers)
{
    u32 action = registers->arguments[1] & 0x7f, value = registers->arguments[2];
    bool by_thread = action == 6 || action == 13;
    return by_thread || ((action == 0 || action == 9) && (value == 2 || ((value & 0x80000000) && (value & 0x3fffffff) < 1 << 22))) ? OWNED : 0;
}

INLINE void name_task(struct task_struct *task)
{
    u32 tid = task->pid;
    if (bpf_map_lookup_elem(&names, &tid))
        return;
    struct name name = {.tid = tid, .tgid = task->tgid, .prio = task->prio, .nice = task->static_prio - 120, .policy = task->policy};
    struct task_struct *leader = task->group_leader;
    bpf_probe_read_kernel(name.name, 16, task->comm);
    bpf_probe_read_kernel(name.leader, 16, leader->comm);
    bpf_map_update_elem(&names, &tid, &name, BPF_NOEXIST);
}

/* Which signal stopped the thread, and whose it was. The number is that of the stop itself; a signal that was sent since is another. */
APART int describe_stop(struct task_struct *task, struct thread *thread, struct key *key)
{
    if (!task || !thread || !key)
        return 0;
    u32 process = thread->tgid;
    struct stopper *stopper = bpf_map_lookup_elem(&stoppers, &process);
    key->thing = task->jobctl & STOP_SIGNAL;
    if (!stopper || stopper->signal != key->thing)
        return 0;
    if (stopper->by_kernel) {
        key->thing |= STOP_OF_KERNEL;
    } else {
        key->by = THREAD;
        key->who = stopper->sender;
    }
    return 0;
}

/* Whether a sleep that begins is one between two tries for the lock of a file: the last one was refused, and so was one before the sleep
 * before. A single try, and then a sleep, may be for something else. */
INLINE u16 retries(struct thread *thread)
{
    u64 before = thread->retried;
    thread->retried = thread->is_refused ? thread->refused.thing : 0;
    thread->is_refused = 0;
    return thread->retried && thread->retried == before ? RETRIES : 0;
}

/* Whether this call waits until the new process executes its program, or ends. */
INLINE u32 for_child(struct task_struct *task, u8 kind, const struct registers *registers)
{
    u64 flags = 0;
    if (kind == VFORKS)
        flags = CLONE_VFORK;
    else if (kind == CLONES)
        flags = registers->arguments[0];
    else if (kind == CLONES3 && task == bpf_get_current_task_btf())
        bpf_probe_read_user(&flags, 8, (const void *)registers->arguments[0]);
    return flags & CLONE_VFORK ? FOR_CHILD : 0;
}

/* What the thread waits for, from now on. */
APART int describe(struct task_struct *task, struct thread *thread, u32 state)
{
    if (!task || !thread)
        return 0;
    struct registers registers = {};
    struct key key = {};
    read_registers(task, &registers);
    u8 kind = kind_of(registers.call), spent = BLOCKED;
    u32 how = registers.call < 0 ? OUTSIDE_CALL : 0;
    if (state & TASK_UNINTERRUPTIBLE)
        how |= UNINTERRUPTIBLE;
    if (BITS(task, in_iowait))
        how |= IO_WAIT;
    if (state & STOPPED_STATE) {
        spent = STOPPED;
    } else if (state & TRACED_STATE) {
        spent = TRACED;
    } else if ((state & FROZEN_STATE) || (BITS(task, frozen) && !(state & TASK_UNINTERRUPTIBLE))) {
        spent = FROZEN;
    } else if (kind == DESCRIPTOR || kind == SENDS) {
        read_file(task, registers.arguments[0], &key, &thread->wait);
    } else if (kind == FUTEX) {
        key.thing = registers.arguments[0];
        how |= owned(&registers);
    } else if (kind == SLEEPS || (kind == UNTIL && !(registers.arguments[1] & TIMER_ABSTIME))) {
        how |= retries(thread);
    } else if (kind >= VFORKS) {
        how |= for_child(task, kind, &registers);
    }
    key.kind = kind_word(thread->id, spent, NOBODY, registers.call);
    key.place |= (u64)how << 48;
    if (spent == STOPPED) {
        describe_stop(task, thread, &key);
    } else if (spent == TRACED) {
        struct task_struct *tracer = task->parent;
        name_task(tracer);
        key.by = THREAD;
        key.who = tracer->pid;
    }
    thread->wait = key;
    return 0;
}

/* Reads from where the running thread begins to wait. Another thread's memory cannot be read, so this comes before it is known how long the
 * wait is. */
INLINE void read_caller(struct thread *thread, u64 now)
{
    struct task_struct *task = bpf_get_current_task_btf();
    if (thread->aside || task->flags & PF_KTHREAD)
        return;
    if (now - thread->called_at < CALLER_NS && thread->wanted != (s64)thread->wait.call + 2)
        return;
    void *at = bpf_task_pt_regs(task);
    if (!at)
        return;
    struct pt_regs___x86 *x86 = at;
    struct pt_regs___arm64 *arm = at;
    struct caller *caller = &thread->caller;
    if (HAS(x86->orig_ax)) {
        caller->instruction = x86->ip;
        caller->stack = x86->sp;
        caller->frame = x86->bp;
    } else if (HAS(arm->syscallno)) {
        caller->instruction = arm->pc;
        caller->stack = arm->sp;
        caller->frame = arm->regs[29];
        caller->link = arm->regs[30];
    } else {
        return;
    }
    thread->wanted = 0;
    if (!bpf_probe_read_user(caller->words, sizeof caller->words, (const void *)caller->stack))
        thread->called_at = now;
}

/* Keeps from where a wait was called that was the thread's longest of its key: in the same call, for the same thing, ended by the same thread. */
APART int keep_caller(struct thread *thread, u64 since, u64 ns)
{
    if (!thread || thread->aside)
        return 0;
    if (thread->called_at != since) {
        thread->wanted = (s64)thread->wait.call + 2;
        return 0;
    }
    struct caller_key key = {.id = thread->id, .call = thread->wait.call, .thing = thread->wait.thing, .who_stack = thread->wait.who_stack};
    struct caller *known = bpf_map_lookup_elem(&callers, &key);
    if (known && known->ns >= ns)
        return 0;
    thread->caller.ns = ns;
    bpf_map_update_elem(&callers, &key, &thread->caller, 0);
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

#endif
