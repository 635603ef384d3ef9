//! Backing off in a polling loop: spin with a hint, then yield, then park until woken.
//!
//! In goes a condition to poll and a [`Bell`] that whoever makes the condition true rings; out comes what the condition gave. A message that
//! comes soon is found by spinning, within nanoseconds; one that comes late is waited for asleep, so that the CPU is left to
//! others. How long is "soon" is a matter of the machine: [`Backoff::tuned`] measures it once, in a few milliseconds.
//!
//! Nothing is allocated, nothing is locked, and no wake-up is lost. The bell is one 32-bit word; put it into shared memory and
//! the same loop works between processes.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
//! use punctual::backoff::{Backoff, Bell};
//!
//! static MAILBOX: AtomicU64 = AtomicU64::new(0); // 0: empty
//! static WORD: AtomicU32 = AtomicU32::new(0);
//!
//! let receiver = std::thread::spawn(|| {
//!     let mut backoff = Backoff::tuned();
//!     let mut sum = 0;
//!     for _ in 0..3 {
//!         sum += backoff.wait_for(Bell::private(&WORD), || match MAILBOX.swap(0, Ordering::Acquire) {
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
//!     Bell::private(&WORD).ring(); // then the bell
//! }
//! assert_eq!(receiver.join().unwrap(), 6);
//! ```
//!
//! A loop of one's own, over things that cannot ring a bell, uses [`Backoff::step`] and does something else once that says
//! [`Step::Park`].

mod atomics;
mod bell;
mod limits;
#[cfg(all(test, loom))]
mod model;
mod profile;
mod tune;

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

pub use bell::{Bell, Ticket};
pub use limits::Limits;
pub use profile::{Profile, ProfileError};

/// What a polling loop does between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It gave the CPU's spin hint.
    Spin,
    /// It let others run (`sched_yield(2)`).
    Yield,
    /// Nothing: it has polled long enough and should sleep until woken.
    Park,
}

/// Waits without yielding after a yield that took too long: at first, and at most, doubling in between.
const SHUN: (u16, u16) = (8, 512);

/// The state of one polling loop. A few words; make one per loop, and keep it: it remembers whether yielding paid.
#[derive(Debug, Clone)]
pub struct Backoff {
    limits: Limits,
    spins: u32,
    yields: u32,
    /// Waits still to come that do not yield.
    shunned: u16,
    /// How many there were the last time.
    shun: u16,
}

impl Backoff {
    /// A backoff with these limits.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, spins: 0, yields: 0, shunned: 0, shun: 0 }
    }

    /// A backoff with the limits that suit this machine.
    ///
    /// The first call of a process measures for a few milliseconds, with a second thread; later calls cost nothing. To spare a
    /// program even those milliseconds, save a [`Profile`] and use [`Backoff::with_profile`].
    #[must_use]
    pub fn tuned() -> Self {
        Self::with_profile(Profile::of_this_machine())
    }

    /// A backoff with the limits that follow from what was measured before.
    #[must_use]
    pub fn with_profile(profile: &Profile) -> Self {
        Self::new(profile.limits())
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Back to spinning: something was found.
    #[inline]
    pub const fn reset(&mut self) {
        self.spins = 0;
        self.yields = 0;
        self.shunned = self.shunned.saturating_sub(1);
    }

    /// One step between two polls: spins or yields once, or, past the limits, does nothing and says [`Step::Park`].
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
            // Somebody needed the CPU and kept it for longer than a wake-up takes: sleeping is now better for both, and will be for a while.
            // On a CPU that others want, a yield is away for a tick; who sleeps is woken with a claim to the CPU.
            self.yields = self.limits.yields;
            self.shun = self.shun.saturating_mul(2).clamp(SHUN.0, SHUN.1);
            self.shunned = self.shun;
        }
        Step::Yield
    }

    /// Polls until `poll` gives something: spinning first, then yielding, then asleep until the bell rings.
    ///
    /// Never misses a ring that came after the condition became true. Starts from spinning each time.
    pub fn wait_for<T>(&mut self, bell: Bell<'_>, mut poll: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = self.wait_until_ns(bell, None, &mut poll) {
                return found;
            }
        }
    }

    /// Like [`Backoff::wait_for`], for `timeout` at most. `None`: the time is up, and a last poll found nothing.
    pub fn wait_for_at_most<T>(
        &mut self,
        bell: Bell<'_>,
        timeout: Duration,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let timeout_ns = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let deadline_ns = now_ns(Clock::Monotonic).saturating_add(timeout_ns);
        self.wait_until_ns(bell, Some(deadline_ns), &mut poll)
    }

    fn wait_until_ns<T>(
        &mut self,
        bell: Bell<'_>,
        deadline_ns: Option<i64>,
        poll: &mut impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.reset();
        loop {
            if let Some(found) = poll() {
                return Some(found);
            }
            // A clock reading costs as much as a dozen polls: while spinning, one look at it in 64 will do.
            let look = self.spins >= self.limits.spins || self.spins.is_multiple_of(64);
            if look && deadline_ns.is_some_and(|deadline| now_ns(Clock::Monotonic) >= deadline) {
                return poll();
            }
            if self.step() == Step::Park {
                let ticket = bell.listen();
                // From here on a ring is not missed; before, it was.
                if let Some(found) = poll() {
                    return Some(found);
                }
                bell.park(ticket, deadline_ns);
            }
        }
    }
}
