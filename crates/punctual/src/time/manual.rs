//! A clock for tests: it moves only if code waits on it or a test moves it.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Clock, Moment};
use crate::time::moment::nanos;

/// Returns how late a sleep ends, given its length.
type Latency = Box<dyn FnMut(Duration) -> Duration + Send>;

/// A clock that tests move by hand. Clones share the time.
///
/// A sleep moves it to the target, plus the wake-up latency of [`ManualClock::late_by`], if set. A spin moves it exactly to the
/// deadline. Code that waits thus runs at once and deterministically:
///
/// ```
/// use std::time::Duration;
/// use punctual::{ManualClock, Ticker};
///
/// let clock = ManualClock::new();
/// let mut ticker = Ticker::options().every(Duration::from_millis(10)).clock(clock.clone()).build().unwrap();
/// assert_eq!(ticker.tick().missed, 0);
/// clock.advance(Duration::from_millis(35)); // a loop body that took too long
/// assert_eq!(ticker.tick().missed, 2);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    now: AtomicI64,
    slept: AtomicU64,
    latency: Mutex<Option<Latency>>,
}

impl ManualClock {
    /// A clock at zero. Every sleep ends on time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how late sleeps end from now on. The closure gets the length of each sleep.
    pub fn late_by(&self, latency: impl FnMut(Duration) -> Duration + Send + 'static) {
        *self.shared.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(latency));
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let _ = self
            .shared
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(nanos(by))));
    }

    /// Sets the clock, forward or back, as an administrator sets the wall clock.
    pub fn set(&self, now: Moment) {
        self.shared.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The number of sleeps so far.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.shared.slept.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.shared.now.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, target: Moment) {
        self.shared.slept.fetch_add(1, Ordering::Relaxed);
        let asked = target.since(self.now());
        let mut latency = self.shared.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let late = latency.as_mut().map_or(Duration::ZERO, |latency| latency(asked));
        drop(latency);
        self.advance(asked.saturating_add(late));
    }

    fn spin_until(&self, deadline: Moment) -> Moment {
        self.advance(deadline.since(self.now()));
        self.now()
    }
}
