/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* The fields of kernel structures that the programs read, and the helpers that they call. Offsets come from the kernel's BTF when the
 * object is loaded (CO-RE), so only names and types count here. Names with three underscores are forms of other kernels. */
#ifndef PUNCTUAL_KERNEL_H
#define PUNCTUAL_KERNEL_H

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
/* Checked once by the verifier, not at each call: pointers are to memory of their type's size, or NULL. */
#define ALONE __attribute__((noinline))
#define NULL ((void *)0)

/* Helpers, by their numbers in include/uapi/linux/bpf.h. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*const bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const bpf_get_task_stack)(void *task, void *to, u32 size, u64 flags) = (void *)141;
static void *(*const bpf_task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static void *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
static long (*const bpf_loop)(u32 count, void *each, void *with, u64 flags) = (void *)181;

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define UINT(name, value) int (*name)[value]
#define TYPE(name, type) type *name

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
    u32 cpu;
};

struct thread_info___x86 {
    u32 status;
};

struct thread_info___arm64 {
    unsigned long flags;
};

struct cfs_rq {
    int throttle_count;
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
    u64 sum_exec_runtime;
};

struct sched_info {
    unsigned long long run_delay;
};

struct sched_dl_entity {
    unsigned int dl_throttled : 1;
    unsigned int dl_yielded : 1;
};

struct list_head {
    struct list_head *next;
};

struct file_lock_context {
    struct list_head flc_posix;
};

/* Until Linux 6.8. */
struct file_lock {
    struct list_head fl_list;
    void *fl_owner;
    unsigned char fl_type;
    unsigned int fl_pid;
    struct file *fl_file;
    s64 fl_start, fl_end;
};

struct file_lock_core {
    struct list_head flc_list;
    void *flc_owner;
    unsigned char flc_type;
    int flc_pid;
    struct file *flc_file;
};

/* Since Linux 6.9. */
struct file_lock___core {
    struct file_lock_core c;
    s64 fl_start, fl_end;
};

struct inode {
    u16 i_mode;
    unsigned long i_ino;
    struct file_lock_context *i_flctx;
    struct super_block *i_sb;
};

struct super_block {
    u32 s_dev;
};

struct qstr {
    const unsigned char *name;
};

struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
};

struct path {
    struct dentry *dentry;
};

struct file {
    struct inode *f_inode;
    struct path f_path;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

struct hrtimer_clock_base {
    s64 offset;
};

struct hrtimer {
    s64 _softexpires;
    void *function;
    struct hrtimer_clock_base *base;
};

/* The timer is its first field. */
struct timerfd_ctx {
    s64 tintv;
};

struct cfs_bandwidth {
    struct hrtimer period_timer;
};

struct task_group {
    struct cfs_bandwidth cfs_bandwidth;
    struct task_group *parent;
};

struct task_struct {
    struct thread_info thread_info;
    unsigned int __state;
    unsigned int on_rq;
    unsigned int on_cpu;
    int prio;
    int static_prio;
    unsigned int rt_priority;
    unsigned int policy;
    struct sched_entity se;
    struct sched_info sched_info;
    struct sched_dl_entity dl;
    struct task_group *sched_task_group;
    unsigned int in_iowait : 1;
    unsigned int frozen : 1;
    unsigned int flags;
    unsigned long jobctl;
    int pid;
    int tgid;
    struct task_struct *parent;
    struct task_struct *group_leader;
    char comm[16];
    u64 timer_slack_ns;
    struct files_struct *files;
};

/* Since Linux 6.18. */
struct task_struct___throttled {
    bool throttled;
};

struct irqaction {
    const char *name;
};

struct pt_regs___x86 {
    unsigned long bx, cx, bp, di, si, dx, r10, orig_ax, ip, sp;
};

struct user_pt_regs___arm64 {
    u64 regs[31];
};

struct pt_regs___arm64 {
    u64 regs[31];
    u64 sp;
    u64 orig_x0;
    s32 syscallno;
    u64 pc;
};

struct bpf_iter__task {
    struct task_struct *task;
};

#pragma clang attribute pop

/* What clang asks the loader about a field (enum bpf_field_info_kind of libbpf's interface). */
#define HAS(field) __builtin_preserve_field_info(field, 2)

/* A bit field of what BTF knows: the loader says where its bytes are and by how much to shift them. */
#define BITS(from, field)                                                                                                                  \
    ({                                                                                                                                     \
        u64 value_ = 0;                                                                                                                    \
        const void *at_ = (const void *)(from) + __builtin_preserve_field_info((from)->field, 0);                                          \
        switch (__builtin_preserve_field_info((from)->field, 1)) {                                                                         \
        case 1: value_ = *(const u8 *)at_; break;                                                                                          \
        case 2: value_ = *(const u16 *)at_; break;                                                                                         \
        case 4: value_ = *(const u32 *)at_; break;                                                                                         \
        case 8: value_ = *(const u64 *)at_; break;                                                                                         \
        }                                                                                                                                  \
        value_ <<= __builtin_preserve_field_info((from)->field, 4);                                                                        \
        value_ >> __builtin_preserve_field_info((from)->field, 5);                                                                         \
    })

#define TASK_UNINTERRUPTIBLE 0x2
#define STOPPED_STATE 0x4
#define TRACED_STATE 0x8
#define TASK_DEAD 0x80
#define STOP_SIGNAL 0xffff /* in `jobctl` (include/linux/sched/jobctl.h) */
#define FIRST_STOP 19      /* SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU */
#define LAST_STOP 22
#define SENT_BY_KERNEL 1 /* SEND_SIG_PRIV, in place of the pointer */
#define SENT_BARELY 0    /* SEND_SIG_NOINFO */
#define FROZEN_STATE 0x8000
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define TIMER_ABSTIME 1
#define TS_COMPAT 2        /* x86, in `status`: the call has the numbers and registers of 32 bits */
#define TIF_32BIT (1 << 22) /* arm64, in `flags` */
#define CLONE_VFORK 0x4000
#define EAGAIN 11
#define WRITE_LOCK 1
#define UNLOCK 2
#define FIFO 1
#define ROUND_ROBIN 2
#define BY_DEADLINE 6

#endif
