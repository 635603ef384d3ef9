//! The end of waits, from another thread: of one wait or of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_linux as linux;

/// Ends the waits of a link, permanently or for one message. Clones share the state. After a fork each process has
/// its own.
#[derive(Debug, Clone, Default)]
pub struct Halt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The current wait must end.
    ends: AtomicBool,
    /// Every wait must end.
    over: AtomicBool,
    /// One more than the number of the awaited message. 0: no message that may be given up.
    awaited: AtomicU64,
    /// One more than the number of the last message given up. 0: none.
    given_up: AtomicU64,
}

/// The result of an interrupted wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The wait continues: the interruption was for an earlier one.
    GoOn,
    /// The message is lost.
    Lost,
    /// All waiting is over.
    Over,
}

impl Halt {
    /// Ends all waits. The thread that notices the peer's end calls it.
    pub fn set(&self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Whether the current wait must end.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed) || linux::stop::requested()
    }

    /// An error (EINTR) of this call if the current wait must end.
    #[inline]
    pub(super) fn check(&self, call: &'static str) -> linux::Result<()> {
        if self.is_set() { Err(linux::Error::from_errno(call, linux::EINTR)) } else { Ok(()) }
    }

    /// Repeats a call after interruptions by signals, until it succeeds or the wait must end.
    #[inline]
    pub fn persist<T>(&self, mut call: impl FnMut() -> linux::Result<T>) -> linux::Result<T> {
        loop {
            match call() {
                Err(e) if e.errno() == linux::EINTR && !self.is_set() => {}
                done => return done,
            }
        }
    }

    /// Called by the waiting thread: from now on it waits for this message, which may be lost.
    #[inline]
    pub(super) fn wait_for(&self, number: u64) {
        self.0.awaited.store(number + 1, Ordering::Relaxed);
        if self.0.ends.load(Ordering::Relaxed) {
            // It was for the previous message, which came at the last moment.
            let _ = self.interrupted(number);
        }
    }

    /// The awaited message, if it may be lost.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.0.awaited.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Ends the wait for this message only.
    pub(super) fn give_up(&self, number: u64) {
        self.0.given_up.store(number + 1, Ordering::SeqCst);
        self.0.ends.store(true, Ordering::SeqCst);
    }

    /// Called by the waiting thread after an interruption: whether to continue the wait for this message.
    pub(super) fn interrupted(&self, number: u64) -> Then {
        self.0.ends.store(false, Ordering::SeqCst);
        if self.0.over.load(Ordering::SeqCst) || linux::stop::requested() {
            // The flag cleared just now may have been a permanent one.
            self.0.ends.store(true, Ordering::SeqCst);
            return Then::Over;
        }
        if self.0.given_up.load(Ordering::SeqCst) == number + 1 { Then::Lost } else { Then::GoOn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_one_message_ends_no_other_wait() {
        let halt = Halt::default();
        assert_eq!(halt.awaited(), None);
        halt.wait_for(0);
        assert_eq!(halt.awaited(), Some(0));
        halt.give_up(0);
        assert!(halt.is_set());
        // It arrived at the last moment, and the thread waits for the next one.
        halt.wait_for(1);
        assert_eq!(halt.interrupted(1), Then::GoOn);
        assert!(!halt.is_set());
        halt.give_up(1);
        assert_eq!(halt.interrupted(1), Then::Lost);
        assert!(!halt.is_set());
    }

    #[test]
    fn the_end_for_good_is_never_taken_back() {
        let halt = Halt::default();
        halt.wait_for(5);
        halt.give_up(5);
        halt.set();
        assert_eq!(halt.interrupted(5), Then::Over);
        assert!(halt.is_set());
        assert_eq!(halt.interrupted(5), Then::Over);
    }
}
