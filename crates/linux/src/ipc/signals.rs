//! Signals with a value of eight bytes: `sigqueue(3)`, `sigwaitinfo(2)`, `signalfd(2)`.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::signal::{change_mask, read_signalfd, set_of, signalfd};
use crate::{Error, Result, check};

/// Bytes of a signal's value: the size of a pointer.
pub const BYTES: usize = size_of::<usize>();

/// A real-time signal, which queues: three below the last, away from those that runtimes use.
#[must_use]
pub fn signal() -> i32 {
    libc::SIGRTMAX() - 3
}

fn set() -> libc::sigset_t {
    set_of(&[signal()])
}

/// `pthread_sigmask(3)`: blocks the signal on this thread, so that it stays pending. Restores the mask on drop.
#[derive(Debug)]
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks the signal.
    pub fn new() -> Result<Self> {
        Ok(Self { before: change_mask(libc::SIG_BLOCK, &set())? })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // A pending signal would end the process when unblocked: take it first.
        while matches!(try_receive(), Ok(Some(_))) {}
        // With a mask that the kernel gave it cannot fail.
        drop(change_mask(libc::SIG_SETMASK, &self.before));
    }
}

/// The part of `siginfo_t` that `rt_tgsigqueueinfo(2)` reads, in the layout of all architectures but MIPS (`sigaction(2)`).
#[repr(C)]
struct QueuedInfo {
    signal: i32,
    error: i32,
    code: i32,
    /// The union has the alignment of a pointer.
    fields: QueuedFields,
    rest: [u64; 12],
}

#[repr(C)]
#[repr(align(8))]
struct QueuedFields {
    pid: i32,
    uid: u32,
    value: usize,
}

/// `rt_tgsigqueueinfo(2)`, the call of `pthread_sigqueue(3)`: queues the signal with a value for one thread of a process.
///
/// A signal to the process would go to any thread that does not block it. EAGAIN: RLIMIT_SIGPENDING of the receiver is reached. ESRCH:
/// the receiver ended.
#[inline]
pub fn send(process: i32, thread: i32, value: usize) -> Result<()> {
    // SAFETY: takes no arguments.
    let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
    let fields = QueuedFields { pid, uid, value };
    let info = QueuedInfo { signal: signal(), error: 0, code: libc::SI_QUEUE, fields, rest: [0; 12] };
    // SAFETY: `info` is valid for the call and at least as large as what the kernel reads (128 bytes).
    let returned = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal(), &raw const info) };
    check("rt_tgsigqueueinfo", returned as i32).map(drop)
}

const _: () = assert!(size_of::<QueuedInfo>() >= 128 && std::mem::offset_of!(QueuedInfo, fields) >= 12);

/// `sigwaitinfo(2)`: waits for the signal and returns its value. The signal must be blocked.
#[inline]
pub fn receive() -> Result<usize> {
    let set = set();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: both are valid for the call.
    check("sigwaitinfo", unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) })?;
    // SAFETY: filled by the call; a queued signal has a value.
    Ok(unsafe { info.assume_init().si_value().sival_ptr } as usize)
}

/// `sigtimedwait(2)` with a timeout of zero.
#[inline]
pub fn try_receive() -> Result<Option<usize>> {
    let set = set();
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: all are valid for the call.
    match check("sigtimedwait", unsafe { libc::sigtimedwait(&raw const set, info.as_mut_ptr(), &raw const none) }) {
        // SAFETY: filled by the call; a queued signal has a value.
        Ok(_) => Ok(Some(unsafe { info.assume_init().si_value().sival_ptr } as usize)),
        Err(e) if e.errno() == libc::EAGAIN => Ok(None),
        Err(e) => Err(e),
    }
}

/// `signalfd(2)`: a descriptor for the signal, which must be blocked.
pub fn descriptor(polling: bool) -> Result<OwnedFd> {
    signalfd(&set(), polling)
}

/// `read(2)` of a signalfd: the value. EAGAIN if non-blocking and no signal is pending.
#[inline]
pub fn read(descriptor: BorrowedFd<'_>) -> Result<usize> {
    match read_signalfd(descriptor)? {
        Some(info) => Ok(info.ssi_ptr as usize),
        None => Err(Error::from_errno("read", libc::EIO).on("signalfd")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn values_arrive_in_order_both_ways() {
        let _blocked = Blocked::new().unwrap();
        let me = (std::process::id() as i32, crate::sched::current_thread_id());
        for value in [1, usize::MAX, 0x8000_0001] {
            send(me.0, me.1, value).unwrap();
        }
        assert_eq!(receive().unwrap(), 1);
        assert_eq!(try_receive().unwrap(), Some(usize::MAX));
        let descriptor = descriptor(true).unwrap();
        assert_eq!(read(descriptor.as_fd()).unwrap(), 0x8000_0001);
        assert_eq!(read(descriptor.as_fd()).unwrap_err().errno(), libc::EAGAIN);
        assert_eq!(try_receive().unwrap(), None);
    }
}
