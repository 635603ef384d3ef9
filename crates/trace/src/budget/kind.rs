//! What a thread did in a stretch, from its state, its call, the file and the kernel's functions that waited.

use punctual_record::Spent;

use super::raw::{By, Key, how, spent};

/// File types (inode(7)), shifted.
const PIPE: u16 = 1;
const TERMINAL: u16 = 2;
const DISK: u16 = 6;
const REGULAR: u16 = 8;
const SOCKET: u16 = 12;

/// The wait of a read from an eventfd or a timerfd, whose name begins as that for a child does.
const NO_CHILD: &str = "do_wait_intr";

/// Functions by which a wait is known whatever the call is: the first that fits.
const BY_FUNCTION: [(&str, Spent); 19] = [
    ("seccomp_do_user_notification", Spent::Supervisor),
    // A supervisor that waits for the next call of those that it supervises.
    ("seccomp_notify_", Spent::OtherFile),
    ("ptrace_stop", Spent::Traced),
    ("do_freezer_trap", Spent::Frozen),
    ("__refrigerator", Spent::Frozen),
    ("do_signal_stop", Spent::Stopped),
    ("try_to_free_pages", Spent::Reclaim),
    ("try_to_free_mem_cgroup_pages", Spent::Reclaim),
    ("shrink_node", Spent::Reclaim),
    ("reclaim_throttle", Spent::Reclaim),
    ("mem_cgroup_handle_over_high", Spent::Reclaim),
    ("do_swap_page", Spent::FaultSwap),
    ("swap_read_folio", Spent::FaultSwap),
    ("lock_mm_and_find_vma", Spent::MmapLock),
    ("mmap_read_lock", Spent::MmapLock),
    ("mmap_write_lock", Spent::MmapLock),
    ("wp_page_copy", Spent::FaultCopy),
    ("filemap_fault", Spent::FaultFile),
    ("do_wait", Spent::Child),
];

/// Calls whose waits for a semaphore of the kernel are those for the address space.
const ADDRESS_SPACE: [&str; 9] = ["mmap", "munmap", "mprotect", "mremap", "brk", "madvise", "clone", "clone3", "fork"];
const SYNCS: [&str; 7] = ["fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range", "umount2"];
const POLLS: [&str; 9] = [
    "poll",
    "ppoll",
    "select",
    "_newselect",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "io_uring_enter",
];
/// Calls that wait for a signal (signal(7)).
const PAUSES: [&str; 5] = ["pause", "rt_sigsuspend", "sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64"];
/// Queues of messages (mq_overview(7), sysvipc(7)).
const QUEUES: [&str; 4] = ["mq_timedreceive", "mq_timedsend", "msgrcv", "msgsnd"];
pub(super) const SLEEPS: [&str; 3] = ["nanosleep", "clock_nanosleep", "restart_syscall"];

/// What the thread did. `functions` are those of the kernel, the innermost first; none where the wait was short.
pub(super) fn kind(key: &Key, call: Option<&str>, functions: &[String]) -> Spent {
    match key.spent {
        spent::RUNNING => Spent::Running,
        spent::INTERRUPTED => Spent::Interrupted,
        spent::READY => Spent::Ready,
        spent::QUOTA => Spent::ThrottledByQuota,
        spent::REAL_TIME => Spent::ThrottledRealTime,
        spent::DEADLINE => Spent::ThrottledDeadline,
        spent::STOPPED => Spent::Stopped,
        spent::TRACED => Spent::Traced,
        spent::FROZEN => Spent::Frozen,
        spent::ASLEEP if key.how & how::RETRIES != 0 => Spent::FileLock,
        spent::ASLEEP => Spent::Asleep,
        spent::SLEPT_LONGER => Spent::SleptLonger,
        spent::BLOCKED => blocked(key, call, functions),
        _ => Spent::Unknown,
    }
}

/// The same by what /proc shows: the state of the thread, its call and the function in which it waits. `between_calls` says that it is in
/// no call; else a call that is absent is not known.
pub(super) fn of_state(state: char, call: Option<&str>, between_calls: bool, function: &str) -> Spent {
    match state {
        'T' => return Spent::Stopped,
        't' => return Spent::Traced,
        _ => {}
    }
    let io = if state == 'D' { how::UNINTERRUPTIBLE | how::IO_WAIT } else { 0 };
    let how = io | if between_calls { how::OUTSIDE_CALL } else { 0 };
    let mode = if function.contains("pipe_") {
        PIPE << 12
    } else if ["sock_", "skb_", "unix_", "inet_", "sk_wait"].iter().any(|start| function.contains(start)) {
        SOCKET << 12
    } else {
        0
    };
    let (spent, by) = (spent::BLOCKED, By::Nobody);
    let key = Key { id: 0, spent, by, call: 0, who: 0, stack: 0, thing: 0, device: 0, mode, how };
    match (call, function) {
        // Only root sees the call of another's thread.
        (None, function) if function.contains("nanosleep") => Spent::Asleep,
        (None, function) if function.contains("futex") => Spent::Condition,
        (None, function) if function.contains("poll") => Spent::Poll,
        _ => match blocked(&key, call, &[function.to_owned()]) {
            // In these calls it waits for the address space as well as for a disk.
            Spent::Disk if call.is_some_and(|call| ADDRESS_SPACE.contains(&call)) => Spent::Blocked,
            kind => kind,
        },
    }
}

fn blocked(key: &Key, call: Option<&str>, functions: &[String]) -> Spent {
    let in_function = |start: &str| functions.iter().any(|name| name.starts_with(start) && !name.starts_with(NO_CHILD));
    if let Some((_, kind)) = BY_FUNCTION.iter().find(|(start, _)| in_function(start)) {
        return *kind;
    }
    // Where the compiler puts the wait for a child into the function that makes it, no other function is above that.
    let makes = |name: &String| name == "kernel_clone" || name == "wait_for_vfork_done";
    if key.how & how::FOR_CHILD != 0 || functions.first().is_some_and(makes) {
        return Spent::Spawn;
    }
    let io = key.how & how::IO_WAIT != 0;
    // The functions that wait for a semaphore are not in the stack: the kernel leaves out those of its scheduler.
    let semaphore = key.how & how::UNINTERRUPTIBLE != 0 && !io;
    if key.how & how::OUTSIDE_CALL != 0 {
        let fault = in_function("exc_page_fault") || in_function("do_page_fault") || in_function("do_user_addr_fault");
        return match io {
            true => Spent::FaultFile,
            false if semaphore && fault => Spent::MmapLock,
            false => Spent::Blocked,
        };
    }
    let Some(call) = call else { return Spent::Blocked };
    let by_call = in_call(key, call, semaphore);
    // The files of the kernel have no device with a number.
    let file = key.how & how::UNINTERRUPTIBLE != 0
        && by_call == Spent::OtherFile
        && key.device >> 20 != 0
        && !key.is_file(TERMINAL);
    let on_disk = io || file;
    match by_call {
        Spent::Blocked | Spent::OtherFile if on_disk => Spent::Disk,
        // The timer of a timerfd.
        Spent::Poll | Spent::OtherFile if key.by == By::Timer => Spent::Asleep,
        kind => kind,
    }
}

/// By the call and the type of its file.
fn in_call(key: &Key, call: &str, semaphore: bool) -> Spent {
    match call {
        "futex" | "futex_waitv" if key.how & how::OWNED != 0 => Spent::Lock,
        "futex" | "futex_waitv" => Spent::Condition,
        "flock" | "fcntl" => Spent::FileLock,
        call if PAUSES.contains(&call) => Spent::Pause,
        "wait4" | "waitid" => Spent::Child,
        "semop" | "semtimedop" => Spent::Condition,
        call if QUEUES.contains(&call) => Spent::MessageQueue,
        call if SYNCS.contains(&call) => Spent::Disk,
        call if POLLS.contains(&call) => Spent::Poll,
        call if SLEEPS.contains(&call) => Spent::Asleep,
        call if semaphore && ADDRESS_SPACE.contains(&call) => Spent::MmapLock,
        _ if key.is_file(PIPE) => Spent::Pipe,
        _ if key.is_file(SOCKET) => Spent::Socket,
        "open" | "openat" | "unlink" | "unlinkat" | "rename" | "renameat2" => Spent::OtherFile,
        _ if [REGULAR, DISK, TERMINAL].iter().any(|format| key.is_file(*format)) => Spent::OtherFile,
        "read" | "readv" | "write" | "writev" => Spent::OtherFile,
        _ => Spent::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(how: u16, format: u16) -> Key {
        let (spent, by) = (spent::BLOCKED, By::Thread);
        Key { id: 1, spent, by, call: 0, who: 0, stack: 0, thing: 0, device: 0, mode: format << 12, how }
    }

    #[test]
    fn a_wait_is_known_by_its_functions_its_call_or_its_file() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (how, format, call, functions, kind) in [
            (0, PIPE, Some("read"), &[][..], Spent::Pipe),
            (0, SOCKET, Some("recvfrom"), &[], Spent::Socket),
            (how::IO_WAIT | how::UNINTERRUPTIBLE, REGULAR, Some("read"), &[], Spent::Disk),
            (how::UNINTERRUPTIBLE, REGULAR, Some("fdatasync"), &["jbd2_log_wait_commit"], Spent::Disk),
            (how::OWNED, 0, Some("futex"), &[], Spent::Lock),
            (0, 0, Some("futex"), &[], Spent::Condition),
            (0, 0, Some("wait4"), &[], Spent::Child),
            (0, 0, Some("msgrcv"), &[], Spent::MessageQueue),
            (0, REGULAR, Some("mq_timedreceive"), &[], Spent::MessageQueue),
            (0, 0, Some("semtimedop"), &[], Spent::Condition),
            (0, 0, Some("pause"), &[], Spent::Pause),
            (0, 0, Some("rt_sigtimedwait"), &[], Spent::Pause),
            (how::OUTSIDE_CALL, 0, None, &[], Spent::Blocked),
            (0, 0, Some("ioctl"), &["seccomp_notify_ioctl"], Spent::OtherFile),
            (0, 0, Some("ioctl"), &[], Spent::Blocked),
            (0, 0, Some("getppid"), &["seccomp_do_user_notification"], Spent::Supervisor),
            (0, 0, Some("waitpid"), &["do_wait", "kernel_wait4"], Spent::Child),
            (0, 0, Some("read"), &["do_wait_intr_irq", "eventfd_read"], Spent::OtherFile),
            (how::OUTSIDE_CALL | how::IO_WAIT, 0, None, &["filemap_fault"], Spent::FaultFile),
            (how::OUTSIDE_CALL, 0, None, &["io_schedule", "do_swap_page", "handle_mm_fault"], Spent::FaultSwap),
            (how::UNINTERRUPTIBLE, 0, Some("munmap"), &["vm_munmap"], Spent::MmapLock),
            (how::UNINTERRUPTIBLE, 0, Some("clone"), &["copy_process", "kernel_clone"], Spent::MmapLock),
            (how::UNINTERRUPTIBLE, 0, Some("clone"), &["kernel_clone", "__do_sys_clone"], Spent::Spawn),
            (how::UNINTERRUPTIBLE | how::FOR_CHILD, 0, Some("clone3"), &[], Spent::Spawn),
            (how::UNINTERRUPTIBLE | how::FOR_CHILD, 0, Some("vfork"), &[], Spent::Spawn),
            (how::OUTSIDE_CALL, 0, None, &["try_to_free_mem_cgroup_pages", "exc_page_fault"], Spent::Reclaim),
            (0, REGULAR, Some("write"), &["try_to_free_buffers"], Spent::OtherFile),
            (0, REGULAR, Some("fcntl"), &[], Spent::FileLock),
            (0, REGULAR, Some("flock"), &[], Spent::FileLock),
        ] {
            assert_eq!(super::kind(&key(how, format), call, &names(functions)), kind, "{call:?} {functions:?}");
        }
    }

    #[test]
    fn a_state_does_not_tell_a_disk_from_the_address_space() {
        let waits = |call, function| of_state('D', Some(call), false, function);
        assert_eq!(waits("mmap", "vm_mmap_pgoff"), Spent::Blocked);
        assert_eq!(waits("read", "folio_wait_bit_common"), Spent::Disk);
    }

    #[test]
    fn a_sleep_is_for_a_file_only_between_refused_tries() {
        let slept = |how| {
            let key = Key { spent: spent::ASLEEP, by: By::Nobody, ..key(how, REGULAR) };
            super::kind(&key, Some("clock_nanosleep"), &[])
        };
        assert_eq!((slept(how::RETRIES), slept(0)), (Spent::FileLock, Spent::Asleep));
    }
}
