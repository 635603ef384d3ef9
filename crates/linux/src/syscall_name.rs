//! Names of the system calls that this project uses, and of those that block, by their number on this architecture.

/// The name of system call `number`, also as [`number_of_32_bit_call`] gives it; `syscall 123` for one not in the table.
#[must_use]
pub fn name_of(number: i64) -> String {
    if let own @ 0..512 = number - OF_32_BITS {
        let known = of_32_bits().find(|(known, _)| *known == own);
        return known.map_or_else(|| format!("32-bit syscall {own}"), |(_, name)| name.to_owned());
    }
    let known = table().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("syscall {number}"), |(_, name)| (*name).to_owned())
}

/// The number of the system call of this name on this architecture; none for one not in the table.
#[must_use]
pub fn number_of(name: &str) -> Option<i64> {
    table().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

/// This and its own number is a call of a 32-bit program that has no number here.
const OF_32_BITS: i64 = 1024;
/// From here on, a call has one number on all architectures (Linux 5.1).
const ALIKE: i64 = 424;

/// The number here of a call that a 32-bit program makes on this 64-bit kernel: programs of one kernel have two tables of calls.
#[must_use]
pub fn number_of_32_bit_call(number: i64) -> i64 {
    let known = of_32_bits().find(|(known, _)| *known == number);
    known.and_then(|(_, name)| number_of(name)).unwrap_or(if (0..ALIKE).contains(&number) {
        OF_32_BITS + number
    } else {
        number
    })
}

fn table() -> impl Iterator<Item = &'static (i64, &'static str)> {
    let wide = WITH_64_BIT_TIME.iter().filter(|_| cfg!(target_pointer_width = "32"));
    KNOWN.iter().chain(OF_X86_64).chain(wide)
}

/// The 64-bit time calls of 32-bit kernels: the numbers are the same on all of them (Linux 5.1, `syscall.tbl`).
const WITH_64_BIT_TIME: &[(i64, &str)] = &[
    (403, "clock_gettime64"),
    (407, "clock_nanosleep_time64"),
    (409, "timer_settime64"),
    (411, "timerfd_settime64"),
    (413, "pselect6_time64"),
    (414, "ppoll_time64"),
    (418, "mq_timedsend_time64"),
    (419, "mq_timedreceive_time64"),
    (421, "rt_sigtimedwait_time64"),
    (422, "futex_time64"),
];

macro_rules! names {
    ($list:ident: $($(#[$only:meta])* $name:ident = $number:ident,)*) => {
        const $list: &[(i64, &str)] = &[$($(#[$only])* (libc::$number as i64, stringify!($name)),)*];
    };
}

names! {
    KNOWN:
    nanosleep = SYS_nanosleep,
    clock_nanosleep = SYS_clock_nanosleep,
    clock_gettime = SYS_clock_gettime,
    clock_getres = SYS_clock_getres,
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64", target_arch = "arm")))]
    select = SYS_select,
    #[cfg(target_arch = "arm")]
    _newselect = SYS__newselect,
    pselect6 = SYS_pselect6,
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64")))]
    poll = SYS_poll,
    ppoll = SYS_ppoll,
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64")))]
    epoll_wait = SYS_epoll_wait,
    epoll_pwait = SYS_epoll_pwait,
    epoll_pwait2 = SYS_epoll_pwait2,
    epoll_create1 = SYS_epoll_create1,
    epoll_ctl = SYS_epoll_ctl,
    timerfd_create = SYS_timerfd_create,
    timerfd_settime = SYS_timerfd_settime,
    timer_create = SYS_timer_create,
    timer_settime = SYS_timer_settime,
    timer_delete = SYS_timer_delete,
    getitimer = SYS_getitimer,
    setitimer = SYS_setitimer,
    rt_sigaction = SYS_rt_sigaction,
    rt_sigprocmask = SYS_rt_sigprocmask,
    rt_sigreturn = SYS_rt_sigreturn,
    rt_sigsuspend = SYS_rt_sigsuspend,
    rt_sigtimedwait = SYS_rt_sigtimedwait,
    restart_syscall = SYS_restart_syscall,
    tgkill = SYS_tgkill,
    futex = SYS_futex,
    futex_waitv = SYS_futex_waitv,
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64")))]
    pause = SYS_pause,
    wait4 = SYS_wait4,
    waitid = SYS_waitid,
    mq_open = SYS_mq_open,
    mq_unlink = SYS_mq_unlink,
    mq_timedreceive = SYS_mq_timedreceive,
    mq_timedsend = SYS_mq_timedsend,
    msgrcv = SYS_msgrcv,
    msgsnd = SYS_msgsnd,
    semop = SYS_semop,
    semtimedop = SYS_semtimedop,
    socketpair = SYS_socketpair,
    setsockopt = SYS_setsockopt,
    recvfrom = SYS_recvfrom,
    #[cfg(target_arch = "arm")]
    recv = SYS_recv,
    sendto = SYS_sendto,
    recvmsg = SYS_recvmsg,
    sendmsg = SYS_sendmsg,
    recvmmsg = SYS_recvmmsg,
    sendmmsg = SYS_sendmmsg,
    #[cfg(not(any(target_arch = "x86", target_arch = "s390x")))]
    accept = SYS_accept,
    accept4 = SYS_accept4,
    connect = SYS_connect,
    io_uring_setup = SYS_io_uring_setup,
    io_uring_enter = SYS_io_uring_enter,
    io_uring_register = SYS_io_uring_register,
    sched_yield = SYS_sched_yield,
    sched_setattr = SYS_sched_setattr,
    sched_getattr = SYS_sched_getattr,
    sched_setscheduler = SYS_sched_setscheduler,
    sched_setaffinity = SYS_sched_setaffinity,
    read = SYS_read,
    readv = SYS_readv,
    pread64 = SYS_pread64,
    write = SYS_write,
    writev = SYS_writev,
    pwrite64 = SYS_pwrite64,
    sendfile = SYS_sendfile,
    splice = SYS_splice,
    fsync = SYS_fsync,
    fdatasync = SYS_fdatasync,
    flock = SYS_flock,
    close = SYS_close,
    openat = SYS_openat,
    fcntl = SYS_fcntl,
    ioctl = SYS_ioctl,
    pipe2 = SYS_pipe2,
    #[cfg(not(target_arch = "arm"))]
    mmap = SYS_mmap,
    #[cfg(target_arch = "arm")]
    mmap2 = SYS_mmap2,
    munmap = SYS_munmap,
    mprotect = SYS_mprotect,
    madvise = SYS_madvise,
    mlockall = SYS_mlockall,
    brk = SYS_brk,
    prctl = SYS_prctl,
    getpid = SYS_getpid,
    gettid = SYS_gettid,
    getrusage = SYS_getrusage,
    execve = SYS_execve,
    clone = SYS_clone,
    clone3 = SYS_clone3,
    execveat = SYS_execveat,
    kill = SYS_kill,
    tkill = SYS_tkill,
    rseq = SYS_rseq,
    membarrier = SYS_membarrier,
    getrandom = SYS_getrandom,
    getdents64 = SYS_getdents64,
    statx = SYS_statx,
    lseek = SYS_lseek,
    ftruncate = SYS_ftruncate,
    fallocate = SYS_fallocate,
    sync = SYS_sync,
    syncfs = SYS_syncfs,
    msync = SYS_msync,
    copy_file_range = SYS_copy_file_range,
    preadv = SYS_preadv,
    pwritev = SYS_pwritev,
    preadv2 = SYS_preadv2,
    pwritev2 = SYS_pwritev2,
    mremap = SYS_mremap,
    unlinkat = SYS_unlinkat,
    mkdirat = SYS_mkdirat,
    renameat2 = SYS_renameat2,
    linkat = SYS_linkat,
    symlinkat = SYS_symlinkat,
    readlinkat = SYS_readlinkat,
    socket = SYS_socket,
    bind = SYS_bind,
    listen = SYS_listen,
    shutdown = SYS_shutdown,
    getsockopt = SYS_getsockopt,
    dup3 = SYS_dup3,
    eventfd2 = SYS_eventfd2,
    signalfd4 = SYS_signalfd4,
    io_getevents = SYS_io_getevents,
    setpriority = SYS_setpriority,
    umask = SYS_umask,
    chdir = SYS_chdir,
    fchdir = SYS_fchdir,
    exit = SYS_exit,
    exit_group = SYS_exit_group,
}

#[cfg(target_arch = "x86_64")]
names! {
    OF_X86_64:
    fork = SYS_fork,
    vfork = SYS_vfork,
    open = SYS_open,
    stat = SYS_stat,
    lstat = SYS_lstat,
    newfstatat = SYS_newfstatat,
    access = SYS_access,
    unlink = SYS_unlink,
    rename = SYS_rename,
    mkdir = SYS_mkdir,
    rmdir = SYS_rmdir,
    readlink = SYS_readlink,
}
#[cfg(not(target_arch = "x86_64"))]
const OF_X86_64: &[(i64, &str)] = &[];

/// Calls of 32-bit programs by their numbers, with the names that they have in programs of 64 bits.
fn of_32_bits() -> impl Iterator<Item = (i64, &'static str)> {
    let text = if cfg!(target_arch = "x86_64") { include_str!("syscall_name/i386.tbl") } else { "" };
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(number, name)| Some((number.parse().ok()?, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_32_bits_has_the_name_of_the_same_call_here() {
        let name = |number| name_of(number_of_32_bit_call(number));
        assert_eq!((name(99), name(449)), ("32-bit syscall 99".to_owned(), name_of(449)));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(
                [162, 407, 240, 3, 102].map(name),
                ["nanosleep", "clock_nanosleep", "futex", "read", "socketcall"]
            );
        }
    }

    #[test]
    fn known_and_unknown_numbers() {
        assert_eq!(name_of(libc::SYS_futex.into()), "futex");
        assert_eq!(name_of(libc::SYS_close.into()), "close");
        assert_eq!(name_of(987_654), "syscall 987654");
    }
}
