//! A point in time on a clock.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: signed nanoseconds since the epoch of the clock it was read from (for `CLOCK_MONOTONIC`: some time at boot). Comparing moments
/// of different clocks makes no sense, and nothing prevents it.
///
/// Arithmetic saturates: a moment 292 years away is as good as never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

impl Moment {
    /// The last moment there is.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment of so many nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// Its nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// So many nanoseconds later (earlier where negative).
    #[must_use]
    pub const fn plus_nanos(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this moment; negative where it is the later one.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same where it is known to be the later one, or the same moment; for a few instructions less.
    pub(crate) const fn nanos_after(self, earlier: Self) -> i64 {
        let ns = self.0.wrapping_sub(earlier.0).cast_unsigned();
        if ns > i64::MAX.unsigned_abs() { i64::MAX } else { ns.cast_signed() }
    }

    /// The duration from `earlier` to this moment; zero where it is the later one.
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
