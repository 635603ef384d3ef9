//! A bell: one word by which whoever changes something wakes whoever waits for the change, without losing a wake-up and without a
//! system call when nobody sleeps.
//!
//! The lowest bit says that somebody listens, the others count the rings that somebody heard. The ringer makes its change,
//! fences, and looks at the bit; the listener sets the bit, fences, and looks for the change. Whatever the order, one of the two sees
//! the other (the store buffering pattern, which only sequentially consistent fences forbid). The ring counts on and clears the bit, so that a
//! listener who has not fallen asleep yet does not fall asleep any more.

use super::atomics::{AtomicU32, Ordering, Scope, fence, sleep_on, wake_all};

/// Somebody listens.
const LISTENED: u32 = 1;
/// One ring.
const RING: u32 = 2;

/// A bell on a word. The word starts at 0 and is used for nothing else; all who use it must agree on private or shared.
#[derive(Debug, Clone, Copy)]
pub struct Bell<'a> {
    word: &'a AtomicU32,
    scope: Scope,
}

/// What a listener heard when it began to listen; see [`Bell::listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "poll once more, then park with this"]
pub struct Ticket(u32);

impl<'a> Bell<'a> {
    /// A bell among the threads of this process.
    #[must_use]
    pub const fn private(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Private }
    }

    /// A bell among processes; the word lies in memory that they share.
    #[must_use]
    pub const fn shared(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Shared }
    }

    /// Wakes everybody who listens. Call it after the change that they wait for.
    ///
    /// When nobody listens this is a fence and a load: nothing is written, and no system call is made.
    #[inline]
    pub fn ring(self) {
        fence(Ordering::SeqCst);
        let seen = self.word.load(Ordering::Relaxed);
        if seen & LISTENED != 0 {
            self.wake(seen);
        }
    }

    #[cold]
    fn wake(self, mut seen: u32) {
        while seen & LISTENED != 0 {
            let next = seen.wrapping_add(RING) & !LISTENED;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return wake_all(self.word, self.scope),
                Err(now) => seen = now,
            }
        }
        // Somebody else rang in between, and wakes the listeners of this ring too.
    }

    /// Begins to listen. Look for the change once more, then [`Bell::park`].
    pub fn listen(self) -> Ticket {
        let heard = self.word.fetch_or(LISTENED, Ordering::AcqRel) | LISTENED;
        fence(Ordering::SeqCst);
        Ticket(heard)
    }

    /// Sleeps until a ring that came after [`Bell::listen`], until CLOCK_MONOTONIC shows `deadline_ns`, or for no reason at all:
    /// poll again. Returns at once when it has rung already.
    pub fn park(self, ticket: Ticket, deadline_ns: Option<i64>) {
        sleep_on(self.word, ticket.0, self.scope, deadline_ns);
    }

    /// Whether somebody has begun to listen since the last ring that was heard. Of use only to tests and tuning: it may
    /// change at once.
    #[must_use]
    pub fn is_listened_to(self) -> bool {
        self.word.load(Ordering::Relaxed) & LISTENED != 0
    }
}
