//! Blocks signals on a thread, sends a signal to a thread, and reads or resets signal actions: `pthread_sigmask(3)`, `tgkill(2)`,
//! `sigaction(2)`.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::{Result, check, check_errno_return};

/// A set of these signals. Async-signal-safe.
pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the set; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// A set of every signal.
pub(crate) fn every_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigfillset initialises the set.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// `pthread_sigmask(3)`: changes the calling thread's mask by this set and returns the mask from before. Async-signal-safe.
pub(crate) fn change_mask(how: i32, set: &libc::sigset_t) -> Result<libc::sigset_t> {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid for the call.
    check_errno_return("pthread_sigmask", unsafe { libc::pthread_sigmask(how, set, before.as_mut_ptr()) })?;
    // SAFETY: zeroed is a valid sigset_t already, and the call filled it.
    Ok(unsafe { before.assume_init() })
}

/// Blocks signals on this thread until dropped, then restores the mask.
///
/// Bound to the thread that created it.
#[derive(Debug)]
#[must_use = "the signals are unblocked when this is dropped"]
pub struct BlockedSignals {
    before: libc::sigset_t,
    bound_to_thread: PhantomData<*const ()>,
}

/// `pthread_sigmask(SIG_BLOCK)`: blocks every signal that can be blocked on the calling thread.
///
/// Another thread then takes signals sent to the process; signals sent to this thread wait until the guard is dropped.
/// Signals that the thread causes itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL) stay unblocked: blocked, they would kill silently.
pub fn block_all_signals_for_this_thread() -> Result<BlockedSignals> {
    block_all_signals_but(&[])
}

/// The same except for the signals in `open`, which are unchanged.
pub fn block_all_signals_but(open: &[i32]) -> Result<BlockedSignals> {
    let mut set = every_signal();
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL].iter().chain(open) {
        // SAFETY: changes an initialised set.
        unsafe { libc::sigdelset(&raw mut set, *signal) };
    }
    Ok(BlockedSignals { before: change_mask(libc::SIG_BLOCK, &set)?, bound_to_thread: PhantomData })
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask that the kernel gave; setting it cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Whether `signal` is blocked on the calling thread.
pub fn is_blocked(signal: i32) -> Result<bool> {
    let mask = change_mask(libc::SIG_BLOCK, &set_of(&[]))?;
    // SAFETY: reads an initialised set.
    Ok(check("sigismember", unsafe { libc::sigismember(&raw const mask, signal) })? == 1)
}

/// `tgkill(2)`: sends `signal` to thread `tid` of this process. ESRCH once that thread has ended. Signal 0 only checks that it exists.
pub fn send_signal_to_thread(tid: i32, signal: i32) -> Result<()> {
    // SAFETY: takes numbers; what a handler then does is the business of whoever installed it.
    let returned = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
    check("tgkill", returned as i32).map(drop).map_err(|e| e.on(format!("thread {tid}, signal {signal}")))
}

/// Whether the process ignores `signal`, as under `nohup` or in the background of a script.
pub fn is_ignored(signal: i32) -> Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null action changes nothing; `action` is writable.
    check("sigaction", unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: the call filled it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Resets each ignored signal that ends or stops a program to its default action. Children would inherit it. For a program that ends
/// others by these signals.
pub fn heed_what_ends_a_program() -> Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP] {
        if is_ignored(signal)? {
            // SAFETY: the default action runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::current_thread_id;

    #[test]
    fn blocked_then_as_before() {
        assert!(!is_blocked(libc::SIGUSR1).unwrap());
        let blocked = block_all_signals_for_this_thread().unwrap();
        assert!(is_blocked(libc::SIGUSR1).unwrap());
        assert!(!is_blocked(libc::SIGSEGV).unwrap());
        let nested = block_all_signals_for_this_thread().unwrap();
        drop(nested);
        assert!(is_blocked(libc::SIGUSR1).unwrap());
        drop(blocked);
        assert!(!is_blocked(libc::SIGUSR1).unwrap());
    }

    #[test]
    fn ignored_and_no_longer() {
        // Ignored by default, which is not the same as being told to.
        assert!(!is_ignored(libc::SIGWINCH).unwrap());
        for signal in [libc::SIGTSTP, libc::SIGWINCH] {
            // SAFETY: runs no code of ours.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
            assert!(is_ignored(signal).unwrap());
        }
        heed_what_ends_a_program().unwrap();
        assert!(!is_ignored(libc::SIGTSTP).unwrap());
        assert!(is_ignored(libc::SIGWINCH).unwrap(), "none of those that end or stop a program");
        assert_eq!(is_ignored(-1).unwrap_err().errno(), libc::EINVAL);
    }

    #[test]
    fn signals_reach_the_thread_or_say_it_is_gone() {
        send_signal_to_thread(current_thread_id(), 0).unwrap();
        // SIGURG is ignored by default, so it may really be sent.
        send_signal_to_thread(current_thread_id(), libc::SIGURG).unwrap();
        assert_eq!(send_signal_to_thread(i32::MAX, 0).unwrap_err().errno(), libc::ESRCH);
    }
}
