//! A clock for tests: it stands still unless somebody waits on it or moves it.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Clock, Moment};
use crate::time::moment::nanos;

/// How late each sleep ends; given the length of the sleep.
type Latency = Box<dyn FnMut(Duration) -> Duration + Send>;

/// A clock that tests move by hand. Clones show the same time.
///
/// Sleeping moves it to the target, plus a wake-up latency if one was set with [`ManualClock::late_by`]; spinning moves it to
/// the deadline exactly. So code that waits runs at once, and always in the same way:
///
/// ```
/// use std::time::Duration;
/// use punctual::{ManualClock, Ticker};
///
/// let clock = ManualClock::new();
/// let mut ticker = Ticker::options().every(Duration::from_millis(10)).on(clock.clone()).open().unwrap();
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
    /// A clock at zero on which every sleep ends on time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how late sleeps end from now on, given the length of each. Closures may count, look up a trace, or draw at random.
    pub fn late_by(&self, latency: impl FnMut(Duration) -> Duration + Send + 'static) {
        *self.shared.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(latency));
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let _ = self
            .shared
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(nanos(by))));
    }

    /// Sets it, forward or back, as an administrator may set the wall clock.
    pub fn set(&self, now: Moment) {
        self.shared.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// How often it was slept on.
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
