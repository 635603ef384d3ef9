/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Locks of files that a thread tries to get, and sleeps between its tries (fcntl(2), F_SETLK). */
#ifndef PUNCTUAL_LOCKS_H
#define PUNCTUAL_LOCKS_H

#include "threads.h"

/* Locks of a file that are looked at. */
#define LOCKS 32

struct lock {
    struct file *file;
    void *owner;
    s64 start, end;
    u32 pid;
    u8 type;
};

INLINE void read_lock(void *at, struct lock *found)
{
    struct file_lock *old = at;
    struct file_lock___core *new = at;
    if (HAS(new->c)) {
        bpf_probe_read_kernel(&found->file, 8, &new->c.flc_file);
        bpf_probe_read_kernel(&found->owner, 8, &new->c.flc_owner);
        bpf_probe_read_kernel(&found->type, 1, &new->c.flc_type);
        bpf_probe_read_kernel(&found->pid, 4, &new->c.flc_pid);
        bpf_probe_read_kernel(&found->start, 8, &new->fl_start);
        bpf_probe_read_kernel(&found->end, 8, &new->fl_end);
    } else if (HAS(old->fl_owner)) {
        bpf_probe_read_kernel(&found->file, 8, &old->fl_file);
        bpf_probe_read_kernel(&found->owner, 8, &old->fl_owner);
        bpf_probe_read_kernel(&found->type, 1, &old->fl_type);
        bpf_probe_read_kernel(&found->pid, 4, &old->fl_pid);
        bpf_probe_read_kernel(&found->start, 8, &old->fl_start);
        bpf_probe_read_kernel(&found->end, 8, &old->fl_end);
    }
}

/* Where a lock is, by its place in the list. */
INLINE void *lock_at(struct list_head *entry)
{
    struct file_lock *old = NULL;
    struct file_lock_core *new = NULL;
    u64 within = HAS(new->flc_list) ? __builtin_preserve_field_info(new->flc_list, 0) : __builtin_preserve_field_info(old->fl_list, 0);
    return (void *)entry - within;
}

struct search {
    struct list_head *first, *entry;
    struct lock wanted;
    u32 holder;
};

static long hold(u32 count, struct search *search)
{
    struct lock other = {};
    if (!search->entry || search->entry == search->first)
        return 1;
    read_lock(lock_at(search->entry), &other);
    struct lock *wanted = &search->wanted;
    bool apart = other.end < wanted->start || other.start > wanted->end;
    if (other.owner != wanted->owner && !apart && (other.type == WRITE_LOCK || wanted->type == WRITE_LOCK)) {
        search->holder = other.pid;
        return 1;
    }
    struct list_head *next = NULL;
    bpf_probe_read_kernel(&next, 8, &search->entry->next);
    search->entry = next;
    return 0;
}

/* The process whose lock keeps this one back; 0: not found. */
APART u32 holder_of(struct inode *inode, const struct lock *wanted)
{
    struct file_lock_context *all = NULL;
    struct search search = {.wanted = *wanted};
    bpf_probe_read_kernel(&all, 8, &inode->i_flctx);
    if (!all)
        return 0;
    search.first = &all->flc_posix;
    bpf_probe_read_kernel(&search.entry, 8, &search.first->next);
    bpf_loop(LOCKS, hold, &search, 0);
    return search.holder;
}

/* A thread asked for a lock of a file, or gave it back. */
SEC("tp_btf/posix_lock_inode")
int lock_asked_for(u64 *context)
{
    struct thread *thread = watched(bpf_get_current_task_btf());
    if (!thread || thread->ended || thread->aside)
        return 0;
    struct inode *inode = (void *)context[0];
    void *asked = (void *)context[1];
    struct lock lock = {};
    if (!inode || !asked)
        return 0;
    read_lock(asked, &lock);
    s32 result = context[2];
    struct key *refused = &thread->refused;
    unsigned long number = inode->i_ino;
    u32 device = inode->i_sb->s_dev;
    if (result != -EAGAIN) {
        if (lock.type != UNLOCK && refused->thing == number && refused->device == device)
            thread->is_refused = 0;
        return 0;
    }
    struct key key = {.id = thread->id, .spent = ASLEEP, .how = RETRIES, .thing = number, .device = device, .mode = inode->i_mode};
    key.who = holder_of(inode, &lock);
    key.by = key.who ? THREAD : NOBODY;
    if (refused->thing != number || refused->device != device)
        name_file(lock.file, &key);
    *refused = key;
    thread->is_refused = 1;
    return 0;
}

#endif
