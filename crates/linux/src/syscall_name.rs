//! Names of the system calls that this project uses, and of those that block, by their number on this architecture.

/// The name of system call `number`, also as [`number_of_32_bit_call`] gives it; `syscall 123` for one not in the table.
#[must_use]
pub fn name_of(number: i64) -> String {
    if let own @ 0..512 = number - OF_32_BITS {
        let known = of_32_bits().find(|(known, _)| *known == own);
        return known.map_or_else(|| format!("32-bit syscall {own}"), |(_, name)| name.to_owned());
    }
    let known = table().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("syscall {number}"), |(_, name)| name.to_owned())
}

/// The number of the system call of this name on this architecture; none for one not in the table.
#[must_use]
pub fn number_of(name: &str) -> Option<i64> {
    table().find(|(_, known)| *known == name).map(|(number, _)| number)
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

fn table() -> impl Iterator<Item = (i64, &'static str)> {
    let wide = WITH_64_BIT_TIME.iter().filter(|_| cfg!(target_pointer_width = "32"));
    let named = |(number, name): &(i64, &'static str)| (*number, name.trim_start_matches("SYS_"));
    KNOWN.iter().copied().flatten().chain(wide).map(named)
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

/// Declares groups of calls, some of them for the architectures that have them.
macro_rules! known {
    ($($(#[$only:meta])? [$($number:ident)*])*) => {
        const KNOWN: &[&[(i64, &str)]] = &[$($(#[$only])? &[$((libc::$number as i64, stringify!($number)),)*],)*];
    };
}

known! {
    [SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres SYS_restart_syscall SYS_sched_yield]
    [SYS_timerfd_create SYS_timerfd_settime SYS_timer_create SYS_timer_settime SYS_timer_delete SYS_getitimer SYS_setitimer]
    [SYS_pselect6 SYS_ppoll SYS_epoll_pwait SYS_epoll_pwait2 SYS_epoll_create1 SYS_epoll_ctl SYS_eventfd2 SYS_signalfd4]
    [SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_tgkill SYS_kill SYS_tkill]
    [SYS_futex SYS_futex_waitv SYS_rseq SYS_membarrier SYS_wait4 SYS_waitid]
    [SYS_mq_open SYS_mq_unlink SYS_mq_timedreceive SYS_mq_timedsend SYS_msgrcv SYS_msgsnd SYS_semop SYS_semtimedop]
    [SYS_socket SYS_socketpair SYS_bind SYS_listen SYS_accept4 SYS_connect SYS_shutdown SYS_getsockopt SYS_setsockopt]
    [SYS_recvfrom SYS_recvmsg SYS_recvmmsg SYS_sendto SYS_sendmsg SYS_sendmmsg]
    [SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_io_getevents]
    [SYS_sched_setattr SYS_sched_getattr SYS_sched_setscheduler SYS_sched_setaffinity SYS_setpriority SYS_getrusage]
    [SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2 SYS_write SYS_writev SYS_pwrite64 SYS_pwritev SYS_pwritev2]
    [SYS_sendfile SYS_splice SYS_copy_file_range SYS_pipe2 SYS_dup3 SYS_fcntl SYS_ioctl SYS_flock SYS_close SYS_lseek]
    [SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_ftruncate SYS_fallocate SYS_getdents64 SYS_statx]
    [SYS_openat SYS_unlinkat SYS_mkdirat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_readlinkat SYS_umask SYS_chdir SYS_fchdir]
    [SYS_munmap SYS_mprotect SYS_madvise SYS_mremap SYS_msync SYS_mlockall SYS_brk]
    [SYS_prctl SYS_getpid SYS_gettid SYS_getrandom SYS_execve SYS_execveat SYS_clone SYS_clone3 SYS_exit SYS_exit_group]
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64")))]
    [SYS_poll SYS_epoll_wait SYS_pause]
    #[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64", target_arch = "arm")))]
    [SYS_select]
    #[cfg(not(any(target_arch = "x86", target_arch = "s390x")))]
    [SYS_accept]
    #[cfg(not(target_arch = "arm"))]
    [SYS_mmap]
    #[cfg(target_arch = "arm")]
    [SYS__newselect SYS_recv SYS_mmap2]
    #[cfg(target_arch = "x86_64")]
    [SYS_fork SYS_vfork SYS_open SYS_stat SYS_lstat SYS_newfstatat SYS_access SYS_unlink SYS_rename SYS_mkdir SYS_rmdir SYS_readlink]
}

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
