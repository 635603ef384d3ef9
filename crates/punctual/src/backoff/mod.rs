//! Backoff in a polling loop: spin with a hint, then yield, then park until woken.
//!
//! A [`Backoff`] polls a condition and returns its value. The thread that makes the condition true notifies an [`EventCount`].
//! Spinning finds an early message within nanoseconds; after that the thread sleeps and leaves the CPU to others. How long to spin
//! depends on the machine: [`Backoff::tuned`] measures it once, in a few milliseconds.
//!
//! It allocates nothing, takes no lock and loses no wake-up. The event count is one 32-bit word; in shared memory, the same loop works
//! between processes.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
//! use punctual::backoff::{Backoff, EventCount};
//!
//! static MAILBOX: AtomicU64 = AtomicU64::new(0); // 0: empty
//! static WORD: AtomicU32 = AtomicU32::new(0);
//!
//! let receiver = std::thread::spawn(|| {
//!     let mut backoff = Backoff::tuned();
//!     let mut sum = 0;
//!     for _ in 0..3 {
//!         sum += backoff.wait_for(EventCount::private(&WORD), || match MAILBOX.swap(0, Ordering::Acquire) {
//!             0 => None,
//!             message => Some(message),
//!         });
//!     }
//!     sum
//! });
//! for message in [1, 2, 3] {
//!     while MAILBOX.load(Ordering::Relaxed) != 0 {
//!         std::thread::yield_now();
//!     }
//!     MAILBOX.store(message, Ordering::Release); // first the message,
//!     EventCount::private(&WORD).notify(); // then the notification
//! }
//! assert_eq!(receiver.join().unwrap(), 6);
//! ```
//!
//! If the condition cannot notify an event count, use [`Backoff::step`] and sleep by other means after [`Step::Park`].

#[cfg(all(test, loom))]
mod model;
mod profile;
mod tune;

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

pub use profile::{EventCount, Key, Limits, Profile, ProfileError};

/// The step between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Gave the CPU's spin hint.
    Spin,
    /// Called `sched_yield(2)`.
    Yield,
    /// Nothing: the loop has polled long enough and should sleep until woken.
    Park,
}

/// Waits without yielding after a yield that took too long: first and largest number; it doubles in between.
const SHUN: (u16, u16) = (8, 512);

/// The state of one polling loop, a few words. Keep one per loop: it remembers whether yielding paid off.
#[derive(Debug, Clone)]
pub struct Backoff {
    limits: Limits,
    spins: u32,
    yields: u32,
    /// Remaining waits without yielding.
    shunned: u16,
    /// The last number of such waits.
    shun: u16,
}

impl Backoff {
    /// A backoff with these limits.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, spins: 0, yields: 0, shunned: 0, shun: 0 }
    }

    /// A backoff with limits measured on this machine.
    ///
    /// The first call in a process measures for a few milliseconds, with a second thread; later calls cost nothing. To avoid the
    /// measurement, save a [`Profile`] and use [`Backoff::with_profile`].
    #[must_use]
    pub fn tuned() -> Self {
        Self::with_profile(Profile::of_this_machine())
    }

    /// A backoff with the limits of a saved profile.
    #[must_use]
    pub fn with_profile(profile: &Profile) -> Self {
        Self::new(profile.limits())
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Restarts with spinning, after a poll found something.
    #[inline]
    pub const fn reset(&mut self) {
        self.spins = 0;
        self.yields = 0;
        self.shunned = self.shunned.saturating_sub(1);
    }

    /// One step between two polls: spins or yields once; beyond the limits does nothing and returns [`Step::Park`].
    #[inline]
    pub fn step(&mut self) -> Step {
        if self.spins < self.limits.spins {
            self.spins += 1;
            std::hint::spin_loop();
            return Step::Spin;
        }
        self.step_after_spinning()
    }

    fn step_after_spinning(&mut self) -> Step {
        if self.yields >= self.limits.yields || self.shunned > 0 {
            return Step::Park;
        }
        self.yields += 1;
        let longest_ns = i64::try_from(self.limits.longest_yield.as_nanos()).unwrap_or(i64::MAX);
        let before = now_ns(Clock::Monotonic);
        std::thread::yield_now();
        if now_ns(Clock::Monotonic) - before > longest_ns {
            // Another thread kept the CPU for longer than a wake-up takes, so sleeping is better for a while. On a busy CPU a yield loses
            // the CPU for a tick; the scheduler favours a thread that wakes up.
            self.yields = self.limits.yields;
            self.shun = self.shun.saturating_mul(2).clamp(SHUN.0, SHUN.1);
            self.shunned = self.shun;
        }
        Step::Yield
    }

    /// Polls until `poll` returns a value: first spins, then yields, then sleeps until notified. Starts with spinning each time.
    ///
    /// Never misses a notification that follows the change of the condition.
    pub fn wait_for<T>(&mut self, event: EventCount<'_>, mut poll: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = self.wait_until_ns(event, None, &mut poll) {
                return found;
            }
        }
    }

    /// Like [`Backoff::wait_for`], for at most `timeout`. `None`: the time is up and a last poll found nothing.
    pub fn wait_for_at_most<T>(
        &mut self,
        event: EventCount<'_>,
        timeout: Duration,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let deadline_ns = now_ns(Clock::Monotonic).saturating_add(timeout_ns);
        self.wait_until_ns(event, Some(deadline_ns), &mut poll)
    }

    fn wait_until_ns<T>(
        &mut self,
        event: EventCount<'_>,
        deadline_ns: Option<i64>,
        poll: &mut impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.reset();
        loop {
            if let Some(found) = poll() {
                return Some(found);
            }
            // A clock reading costs as much as a dozen polls: while spinning, one in 64 polls reads the clock.
            let look = self.spins >= self.limits.spins || self.spins.is_multiple_of(64);
            if look && deadline_ns.is_some_and(|deadline| now_ns(Clock::Monotonic) >= deadline) {
                return poll();
            }
            if self.step() == Step::Park {
                let key = event.prepare_wait();
                // A notification from here on is not missed, so poll once more.
                if let Some(found) = poll() {
                    return Some(found);
                }
                event.wait(key, deadline_ns);
            }
        }
    }
}
