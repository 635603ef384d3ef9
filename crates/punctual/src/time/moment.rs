//! A point in time on a clock.

use std::ops::{Add, AddAssign, Sub};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use punctual_linux::clock::{Clock, now_ns};

/// A point in time: signed nanoseconds since the epoch of its clock (for `CLOCK_MONOTONIC`, roughly boot). Moments of different clocks
/// must not be compared; the type does not prevent it.
///
/// Arithmetic saturates at ±292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

impl Moment {
    /// The last moment, 292 years after the epoch.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment `ns` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The moment `ns` nanoseconds later; earlier if negative.
    #[must_use]
    pub const fn plus_nanos(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this moment; negative if `earlier` is the later one.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same, a few instructions faster, for an `earlier` that is known not to be later.
    pub(crate) const fn nanos_after(self, earlier: Self) -> i64 {
        let ns = self.0.wrapping_sub(earlier.0).cast_unsigned();
        if ns > i64::MAX.unsigned_abs() { i64::MAX } else { ns.cast_signed() }
    }

    /// The duration from `earlier` to this moment; zero if `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let ns = self.nanos_since(earlier);
        Duration::from_nanos(if ns < 0 { 0 } else { ns.unsigned_abs() })
    }
}

/// Nanoseconds of a duration, at most `i64::MAX`.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Pairs of readings, of which [`anchor`] takes the closest: a preemption spoils one pair, not all.
const ANCHOR_READINGS: usize = 16;

/// One point in time as an `Instant` and as a moment of `CLOCK_MONOTONIC`, the clock of `Instant` on Linux. Read once per process.
fn anchor() -> (Instant, Moment) {
    static ANCHOR: OnceLock<(Instant, Moment)> = OnceLock::new();
    *ANCHOR.get_or_init(|| {
        let read = || {
            let instant = Instant::now();
            // After the instant, so that no converted deadline is too early.
            let moment = Moment::from_nanos(now_ns(Clock::Monotonic));
            (instant.elapsed(), (instant, moment))
        };
        let first = read();
        (1..ANCHOR_READINGS).map(|_| read()).fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    })
}

/// The moment of `CLOCK_MONOTONIC`, for deadlines on that clock. It is never earlier than the instant. It is later by the time between two
/// clock readings, the same for all instants of a process.
impl From<Instant> for Moment {
    fn from(instant: Instant) -> Self {
        let (known, moment) = anchor();
        match instant.checked_duration_since(known) {
            Some(later) => moment + later,
            None => moment - known.duration_since(instant),
        }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        self.plus_nanos(nanos(later))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, later: Duration) {
        *self = *self + later;
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_a_moment_of_the_monotonic_clock_and_never_an_earlier_one() {
        for _ in 0..1_000 {
            let before = Instant::now();
            let between = Moment::from_nanos(now_ns(Clock::Monotonic));
            let after = Moment::from(Instant::now());
            assert!(after >= between, "converted too early");
            let offset = Moment::from(before).nanos_since(between);
            assert!(offset < 1_000_000, "{offset} ns later than a reading that followed it");
        }
        let instant = Instant::now();
        for distance in [Duration::from_nanos(1), Duration::from_secs(1), Duration::from_secs(1 << 30)] {
            assert_eq!(Moment::from(instant + distance), Moment::from(instant) + distance);
        }
        let micro = Duration::from_micros(1);
        assert_eq!(Moment::from(instant - micro), Moment::from(instant) - micro);
    }

    #[test]
    fn arithmetic_saturates() {
        let now = Moment::from_nanos(1_000);
        assert_eq!(now + Duration::MAX, Moment::NEVER);
        assert_eq!(now - Duration::from_nanos(1_500), Moment::from_nanos(-500));
        assert_eq!(now.since(now + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(now.nanos_since(now + Duration::from_secs(1)), -1_000_000_000);
        assert_eq!(Moment::NEVER.nanos_since(Moment::from_nanos(-5)), i64::MAX);
        for (later, earlier) in [(5, 5), (5, -5), (i64::MAX, 0), (i64::MAX, -1), (i64::MAX, i64::MIN), (0, i64::MIN)] {
            let (later, earlier) = (Moment::from_nanos(later), Moment::from_nanos(earlier));
            assert_eq!(later.nanos_after(earlier), later.nanos_since(earlier));
        }
    }
}
