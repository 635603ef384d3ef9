//! Timer signals of this process: blocked in the thread that waits for them, and handled harmlessly in all others.
//!
//! The real-time signals used here lie above those that the C library reserves (`SIGRTMIN` excludes these).

mod handler;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;

pub(crate) use handler::{Action, AlarmTarget, Handler, Slot, timer_value};

use crate::Result;
use crate::signal::{change_mask, set_of};

/// The signal of timers that `sigwaitinfo` waits for.
pub(crate) fn for_waiting() -> i32 {
    libc::SIGRTMIN() + 2
}

/// The signal of timers with a handler.
pub(crate) fn for_handling() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The signal that `sigtimedwait` waits for; it is never sent.
pub(crate) fn for_nothing() -> i32 {
    libc::SIGRTMIN() + 4
}

/// The signal that interrupts a wait.
pub(crate) fn for_interrupting() -> i32 {
    libc::SIGRTMIN() + 5
}

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
            let before = change_mask(libc::SIG_BLOCK, &set_of(&[signal]))?;
            // SAFETY: reads an initialised set.
            entry.1 = unsafe { libc::sigismember(&raw const before, signal) } == 1;
        }
        entry.0 += 1;
        HELD.set(table);
        Ok(Self { signal, bound_to_thread: PhantomData })
    }

    /// The calling thread's signal mask without this signal, for `sigsuspend`.
    pub(crate) fn mask_without(&self) -> Result<libc::sigset_t> {
        let mut mask = change_mask(libc::SIG_BLOCK, &set_of(&[]))?;
        // SAFETY: changes an initialised set.
        unsafe { libc::sigdelset(&raw mut mask, self.signal) };
        Ok(mask)
    }

    /// Discards pending signals of this number.
    pub(crate) fn discard_pending(&self) {
        let set = set_of(&[self.signal]);
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
            // With these arguments it cannot fail.
            let _ = change_mask(libc::SIG_UNBLOCK, &set_of(&[self.signal]));
        }
        HELD.set(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::is_blocked;

    #[test]
    fn a_signal_stays_held_until_the_last_one_lets_go() {
        let signal = libc::SIGRTMIN() + 9;
        assert!(!is_blocked(signal).unwrap());
        let first = Held::new(signal).unwrap();
        let second = Held::new(signal).unwrap();
        drop(first);
        assert!(is_blocked(signal).unwrap());
        // A pending signal whose default action would end the process must be discarded before it is unblocked.
        // SAFETY: sends a signal to this thread, which holds it.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        drop(second);
        assert!(!is_blocked(signal).unwrap());
    }
}
