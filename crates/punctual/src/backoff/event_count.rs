//! An event count: one word through which a thread wakes others after it changed a condition. It loses no wake-up, and a
//! notification without waiters makes no system call.
//!
//! The lowest bit is set while a thread waits; the other bits count notifications. The notifier changes the condition, fences and
//! reads the bit. The waiter sets the bit, fences and checks the condition. One of the two always sees the other: sequentially
//! consistent fences rule out the store buffering outcome. A notification increments the count and clears the bit, so a waiter that is
//! about to sleep does not. The design follows folly's and crossbeam's EventCount.

#[cfg(all(test, loom))]
pub(super) use modelled::AtomicU32;
#[cfg(all(test, loom))]
use modelled::{Ordering, Scope, fence, sleep_on, wake_all};
#[cfg(not(all(test, loom)))]
pub(super) use real::AtomicU32;
#[cfg(not(all(test, loom)))]
use real::{Ordering, Scope, fence, sleep_on, wake_all};

/// The bit set while a thread waits.
const WAITER: u32 = 1;
/// The unit of the count.
const NOTIFICATION: u32 = 2;

/// An event count on a word. The word starts at 0 and must have no other use. All users must agree on private or shared.
#[derive(Debug, Clone, Copy)]
pub struct EventCount<'a> {
    word: &'a AtomicU32,
    scope: Scope,
}

/// The count that a waiter saw in [`EventCount::prepare_wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "poll once more, then wait with this"]
pub struct Key(u32);

impl<'a> EventCount<'a> {
    /// An event count among the threads of this process.
    #[must_use]
    pub const fn private(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Private }
    }

    /// An event count between processes; the word lies in shared memory.
    #[must_use]
    pub const fn shared(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Shared }
    }

    /// Wakes all waiters. Call it after changing the condition.
    ///
    /// Without waiters, this is a fence and a load: no write, no system call.
    #[inline]
    pub fn notify(self) {
        fence(Ordering::SeqCst);
        let seen = self.word.load(Ordering::Relaxed);
        if seen & WAITER != 0 {
            self.wake(seen);
        }
    }

    #[cold]
    fn wake(self, mut seen: u32) {
        while seen & WAITER != 0 {
            let next = seen.wrapping_add(NOTIFICATION) & !WAITER;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return wake_all(self.word, self.scope),
                Err(now) => seen = now,
            }
        }
        // Another thread notified in between and wakes these waiters too.
    }

    /// Announces a waiter. Check the condition once more, then call [`EventCount::wait`].
    pub fn prepare_wait(self) -> Key {
        let seen = self.word.fetch_or(WAITER, Ordering::AcqRel) | WAITER;
        fence(Ordering::SeqCst);
        Key(seen)
    }

    /// Sleeps until a notification after [`EventCount::prepare_wait`], or until `deadline_ns` on CLOCK_MONOTONIC. Returns at once if
    /// the notification came already. Spurious wake-ups are possible: poll again.
    pub fn wait(self, key: Key, deadline_ns: Option<i64>) {
        sleep_on(self.word, key.0, self.scope, deadline_ns);
    }

    /// Whether a thread has announced a wait since the last notification. For tests and tuning: the answer may be outdated at once.
    #[must_use]
    pub fn has_waiters(self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITER != 0
    }
}

/// The word, the fence and the sleep.
#[cfg(not(all(test, loom)))]
mod real {
    pub(in super::super) use std::sync::atomic::{AtomicU32, Ordering, fence};

    use punctual_linux::futex;
    pub(in super::super) use punctual_linux::futex::Scope;

    /// Sleeps while the word holds `expected`.
    pub(in super::super) fn sleep_on(word: &AtomicU32, expected: u32, scope: Scope, deadline_ns: Option<i64>) {
        // The caller polls again in any case. If the kernel refuses (a seccomp filter without futex), yield instead of spinning.
        if futex::wait(word, expected, scope, deadline_ns).is_err() {
            std::thread::yield_now();
        }
    }

    /// Wakes all sleepers on the word.
    pub(in super::super) fn wake_all(word: &AtomicU32, scope: Scope) {
        // Fails only for an unmapped address (EFAULT); `word` is mapped.
        drop(futex::wake(word, u32::MAX, scope));
    }
}

/// The same for the model checker.
#[cfg(all(test, loom))]
mod modelled {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    pub(in super::super) use punctual_linux::futex::Scope;

    loom::lazy_static! {
        // The kernel's hash bucket: under its lock, comparing the word and sleeping are one step, and so is waking.
        static ref BUCKET: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(in super::super) fn sleep_on(word: &AtomicU32, expected: u32, _: Scope, _: Option<i64>) {
        let guard = BUCKET.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(BUCKET.1.wait(guard).unwrap());
        }
    }

    pub(in super::super) fn wake_all(_: &AtomicU32, _: Scope) {
        let _guard = BUCKET.0.lock().unwrap();
        BUCKET.1.notify_all();
    }
}
