//! Blocks a signal in one thread.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use super::set_of;
use crate::{Result, check_errno_return};

/// Highest signal number plus one (`_NSIG`), for the tables.
const SIGNALS: usize = 65;

thread_local! {
    /// Per signal: the number of holds on this thread, and whether it was blocked before the first.
    static HELD: Cell<[(u16, bool); SIGNALS]> = const { Cell::new([(0, false); SIGNALS]) };
}

/// Blocks a signal in the calling thread; holds nest. The last drop discards pending signals and restores the mask.
#[derive(Debug)]
pub(crate) struct Held {
    signal: i32,
    bound_to_thread: PhantomData<*const ()>,
}

impl Held {
    pub(crate) fn new(signal: i32) -> Result<Self> {
        let mut table = HELD.get();
        let entry = &mut table[signal as usize];
        if entry.0 == 0 {
            let set = set_of(signal);
            let mut old = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: both sets are valid for the call, which fills `old` when it succeeds.
            let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, old.as_mut_ptr()) };
            check_errno_return("pthread_sigmask", errno)?;
            // SAFETY: `old` was filled.
            entry.1 = unsafe { libc::sigismember(old.as_ptr(), signal) } == 1;
        }
        entry.0 += 1;
        HELD.set(table);
        Ok(Self { signal, bound_to_thread: PhantomData })
    }

    /// The calling thread's signal mask without this signal, for `sigsuspend`.
    pub(crate) fn mask_without(&self) -> Result<libc::sigset_t> {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the mask only, which is filled when the call succeeds.
        let errno = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
        check_errno_return("pthread_sigmask", errno)?;
        // SAFETY: `mask` was filled; sigdelset changes an initialised set.
        unsafe {
            libc::sigdelset(mask.as_mut_ptr(), self.signal);
            Ok(mask.assume_init())
        }
    }

    /// Discards pending signals of this number.
    pub(crate) fn discard_pending(&self) {
        let set = set_of(self.signal);
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set and timeout are valid for each call; no information is asked for.
        while unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const zero) } == self.signal {}
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = HELD.get();
        let entry = &mut table[self.signal as usize];
        entry.0 -= 1;
        if entry.0 == 0 && !entry.1 {
            self.discard_pending();
            let set = set_of(self.signal);
            // SAFETY: the set is valid for the call; with these arguments it cannot fail.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut()) };
        }
        HELD.set(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(signal: i32) -> bool {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the mask, which is filled, and reads it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_signal_stays_held_until_the_last_one_lets_go() {
        let signal = libc::SIGRTMIN() + 9;
        assert!(!blocked(signal));
        let first = Held::new(signal).unwrap();
        let second = Held::new(signal).unwrap();
        drop(first);
        assert!(blocked(signal));
        // A pending signal whose default action would end the process must be discarded before it is unblocked.
        // SAFETY: sends a signal to this thread, which holds it.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        drop(second);
        assert!(!blocked(signal));
    }
}
