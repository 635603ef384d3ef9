//! The CPU's counter (TSC, CNTVCT_EL0) as a clock, calibrated against `CLOCK_MONOTONIC`.
//!
//! [`Counter::calibrate`] returns a [`Counter`], or [`Unavailable`] with the reason. Reading it takes a few nanoseconds and no system call.
//! Its rate is exact only to [`Counter::error_ppb`]: to be never early, verify on the clock.

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::counter::RawCounter;

/// The reason why no counter is available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// The CPU's counter and its rate in ticks per nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    raw: RawCounter,
    rate: Rate,
    error_ppb: u32,
}

/// Fraction bits of the fixed-point factors of [`Rate`]: an hour converts to within a nanosecond.
const SHIFT: u32 = 48;

/// Readings per pair; the one with the shortest bracket counts.
const READINGS: u32 = 64;

/// Time between the pairs. Brackets of 50 ns over 4 ms give a rate to some 25 ppm at worst, usually far better.
const GAP: Duration = Duration::from_millis(2);

/// Largest difference of the two rates of a calibration, as a multiple of the uncertainty of their brackets.
const TOLERANCE: f64 = 4.0;

/// A ratio of ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    ticks_per_ns: u128,
    ns_per_tick: u128,
}

impl Rate {
    /// The rate of a counter that advanced by `ticks` in `ns` nanoseconds. `None` if either is 0.
    #[must_use]
    pub fn new(ticks: u64, ns: u64) -> Option<Self> {
        if ticks == 0 || ns == 0 {
            return None;
        }
        let (ticks, ns) = (u128::from(ticks), u128::from(ns));
        Some(Self { ticks_per_ns: (ticks << SHIFT) / ns, ns_per_tick: (ns << SHIFT) / ticks })
    }

    /// The ticks of `ns` nanoseconds, rounded up; 0 if negative; saturates at `u64::MAX`.
    #[inline]
    #[must_use]
    pub fn ticks_of(self, ns: i64) -> u64 {
        scale(ns.max(0).unsigned_abs(), self.ticks_per_ns)
    }

    /// The nanoseconds of `ticks`, rounded up; saturates at `i64::MAX`.
    #[inline]
    #[must_use]
    pub fn ns_of(self, ticks: u64) -> i64 {
        i64::try_from(scale(ticks, self.ns_per_tick)).unwrap_or(i64::MAX)
    }

    /// Ticks per second.
    #[must_use]
    pub fn hz(self) -> f64 {
        self.ticks_per_ns as f64 / (1_u64 << SHIFT) as f64 * 1e9
    }
}

/// `value` times a fixed-point factor, rounded up, saturating.
#[inline]
fn scale(value: u64, factor: u128) -> u64 {
    let low_mask = (1_u128 << SHIFT) - 1;
    match u128::from(value).checked_mul(factor) {
        Some(product) => u64::try_from((product >> SHIFT) + u128::from(product & low_mask != 0)).unwrap_or(u64::MAX),
        None => u64::MAX,
    }
}

/// A reading of both clocks.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ticks: u64,
    ns: i64,
    /// Time between the two clock readings around the counter's.
    bracket_ns: i64,
}

impl Counter {
    /// Calibrates the counter against `CLOCK_MONOTONIC`. Takes about 4 ms, mostly asleep.
    ///
    /// # Errors
    /// The CPU has no reliable counter, or the two halves of the calibration disagree.
    pub fn calibrate() -> Result<Self, Unavailable> {
        let raw = RawCounter::open().map_err(|e| Unavailable(e.to_string()))?;
        let first = best_pair(raw);
        std::thread::sleep(GAP);
        let middle = best_pair(raw);
        std::thread::sleep(GAP);
        let last = best_pair(raw);
        let early = Span::between(first, middle);
        let late = Span::between(middle, last);
        let whole = Span::between(first, last);
        if early.disagrees_with(late) {
            return Err(Unavailable(format!(
                "the {} ran at {:.6} and then at {:.6} ticks per nanosecond within one calibration",
                raw.name(),
                early.ratio(),
                late.ratio()
            )));
        }
        let rate = Rate::new(whole.ticks, whole.ns)
            .ok_or_else(|| Unavailable(format!("the {} did not advance within {} ns", raw.name(), whole.ns)))?;
        Ok(Self { raw, rate, error_ppb: (whole.relative_error() * 1e9).ceil() as u32 })
    }

    /// Reads the counter.
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.raw.ticks()
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The ticks of `ns` nanoseconds, rounded up.
    #[inline]
    #[must_use]
    pub fn ticks_of(&self, ns: i64) -> u64 {
        self.rate.ticks_of(ns)
    }

    /// The nanoseconds of `ticks`, rounded up.
    #[inline]
    #[must_use]
    pub fn ns_of(&self, ticks: u64) -> i64 {
        self.rate.ns_of(ticks)
    }

    /// The uncertainty of the rate in parts per billion: that of the readings over the time between them.
    #[must_use]
    pub fn error_ppb(&self) -> u32 {
        self.error_ppb
    }

    /// The counter's name: `TSC` or `CNTVCT_EL0`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.raw.name()
    }
}

/// The time between two pairs.
#[derive(Debug, Clone, Copy)]
struct Span {
    ticks: u64,
    ns: u64,
    uncertain_ns: i64,
}

impl Span {
    fn between(a: Pair, b: Pair) -> Self {
        Self {
            ticks: b.ticks.saturating_sub(a.ticks),
            ns: b.ns.saturating_sub(a.ns).max(0).unsigned_abs(),
            uncertain_ns: a.bracket_ns + b.bracket_ns,
        }
    }

    fn ratio(self) -> f64 {
        self.ticks as f64 / self.ns as f64
    }

    fn relative_error(self) -> f64 {
        // One tick more or less counts too: it matters for a slow counter.
        self.uncertain_ns as f64 / self.ns as f64 + 2.0 / self.ticks as f64
    }

    fn disagrees_with(self, other: Self) -> bool {
        let apart = (self.ratio() / other.ratio() - 1.0).abs();
        // NaN: nothing advanced.
        apart.is_nan() || apart > TOLERANCE * (self.relative_error() + other.relative_error())
    }
}

/// The least disturbed of [`READINGS`] readings: the one with the shortest bracket.
fn best_pair(raw: RawCounter) -> Pair {
    (0..READINGS).map(|_| read_pair(raw)).min_by_key(|pair| pair.bracket_ns).unwrap_or_else(|| read_pair(raw))
}

fn read_pair(raw: RawCounter) -> Pair {
    let before = now_ns(Clock::Monotonic);
    let ticks = raw.ticks_serialised();
    let after = now_ns(Clock::Monotonic);
    Pair { ticks, ns: before + (after - before) / 2, bracket_ns: after - before }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Conversion is never short, and long by at most one unit and the rate's own rounding.
        #[test]
        fn ticks_are_exact_to_the_rounding(hz in 1_000_u64..10_000_000_000, ns in 0_i64..3_600_000_000_000) {
            let rate = Rate::new(hz, 1_000_000_000).unwrap();
            let exact = (ns as u128 * u128::from(hz)).div_ceil(1_000_000_000);
            let got = u128::from(rate.ticks_of(ns));
            prop_assert!(got <= exact && exact - got <= 1, "{got} for {exact}");
        }

        #[test]
        fn there_and_back_is_near(hz in 1_000_000_u64..10_000_000_000, ns in 0_i64..3_600_000_000_000) {
            let rate = Rate::new(hz, 1_000_000_000).unwrap();
            let tick_ns = 1_000_000_000 / hz as i64 + 1;
            let back = rate.ns_of(rate.ticks_of(ns));
            prop_assert!((back - ns).abs() <= tick_ns + 2, "{back} for {ns}");
        }

        #[test]
        fn longer_is_never_fewer_ticks(ticks in 1_u64.., span in 1_u64.., a in any::<i64>(), b in any::<i64>()) {
            let rate = Rate::new(ticks, span).unwrap();
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(rate.ticks_of(a) <= rate.ticks_of(b));
        }

        #[test]
        fn nothing_overflows(ticks in 1_u64.., span in 1_u64.., value in any::<u64>()) {
            let rate = Rate::new(ticks, span).unwrap();
            prop_assert!(rate.ns_of(value) >= 0);
            let _ = rate.ticks_of(i64::MAX);
        }
    }

    #[test]
    fn a_rate_needs_both() {
        assert!(Rate::new(0, 5).is_none());
        assert!(Rate::new(5, 0).is_none());
        assert_eq!(Rate::new(3, 1).unwrap().ticks_of(-7), 0);
    }

    #[test]
    fn halves_that_differ_are_no_rate() {
        let span = |ticks, ns| Span { ticks, ns, uncertain_ns: 100 };
        assert!(!span(2_000_000, 1_000_000).disagrees_with(span(2_000_100, 1_000_000)));
        assert!(span(2_000_000, 1_000_000).disagrees_with(span(3_000_000, 1_000_000)));
        assert!(span(0, 1_000_000).disagrees_with(span(0, 1_000_000)), "a counter that stands still");
    }

    #[test]
    fn the_real_counter_agrees_with_the_clock() {
        let counter = match Counter::calibrate() {
            Ok(counter) => counter,
            Err(_) => return punctual_testing::lacks(punctual_testing::Lack::Counter),
        };
        let (from_ns, from) = (now_ns(Clock::Monotonic), counter.ticks());
        std::thread::sleep(Duration::from_millis(20));
        let (to, to_ns) = (counter.ticks(), now_ns(Clock::Monotonic));
        // The counter's span lies within the clock's, up to the calibration's own error and what NTP slews the clock by.
        let slack = (to_ns - from_ns) / 1000 * (1 + i64::from(counter.error_ppb()) / 1_000_000);
        assert!(counter.ns_of(to - from) <= to_ns - from_ns + slack);
        assert!(counter.ns_of(to - from) >= 20_000_000 - slack);
    }
}
