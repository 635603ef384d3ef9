//! Rates and periods as exact fractions. 44 100 per second is a period of 10⁷/441 ns, still exact after 10⁹ ticks.
//!
//! A [`Rate`] is made from a frequency, a number of events per duration, or a period. A [`Grid`] has its deadlines and never
//! drifts. [`BadRate`] refuses zero, negative numbers, NaN, more than 10⁹ events per second, and periods above 292 years.

use std::time::Duration;

use crate::time::Moment;

/// A number of events per number of nanoseconds, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    events: u64,
    nanos: u64,
}

/// An invalid rate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadRate {
    /// Zero events, or a duration of zero.
    #[error("the rate needs at least one event and a time above zero (example: 1000 in 1s)")]
    Zero,
    /// Zero, negative or NaN.
    #[error("the rate must be above 0 events per second, not {0} (example: 0.5)")]
    NotPositive(f64),
    /// More than one event per nanosecond.
    #[error("the rate must be at most 1e9 events per second, one per nanosecond, not {0} (example: 1e6)")]
    TooFast(f64),
    /// Less than one event in 292 years.
    #[error("the period must be at most 292 years, the range of the clock")]
    TooSlow,
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Rate {
    /// Exactly `events` per `span`: `Rate::new(44_100, Duration::from_secs(1))`.
    pub fn new(events: u64, span: Duration) -> Result<Self, BadRate> {
        let nanos = u64::try_from(span.as_nanos()).map_err(|_| BadRate::TooSlow)?;
        if events == 0 || nanos == 0 {
            return Err(BadRate::Zero);
        }
        if events > nanos {
            return Err(BadRate::TooFast(events as f64 * 1e9 / nanos as f64));
        }
        if nanos / events > i64::MAX.unsigned_abs() {
            return Err(BadRate::TooSlow);
        }
        let common = greatest_common_divisor(events, nanos);
        Ok(Self { events: events / common, nanos: nanos / common })
    }

    /// Exactly `events` per second, 1 to 10⁹.
    pub fn per_second(events: u64) -> Result<Self, BadRate> {
        Self::new(events, Duration::from_secs(1))
    }

    /// Exactly one event per `period`, 1 ns to 292 years.
    pub fn every(period: Duration) -> Result<Self, BadRate> {
        Self::new(1, period)
    }

    /// A frequency in events per second, 10⁻⁹ to 10⁹, rounded to 10⁻⁹ events per second.
    pub fn hertz(frequency: f64) -> Result<Self, BadRate> {
        if frequency.is_nan() || frequency <= 0.0 {
            return Err(BadRate::NotPositive(frequency));
        }
        if frequency > 1e9 {
            return Err(BadRate::TooFast(frequency));
        }
        // Whole frequencies are exact. Others become events per 10^9 seconds, or per fewer if that does not fit.
        if frequency.fract() == 0.0 {
            return Self::per_second(frequency as u64);
        }
        let seconds = (9e18 / frequency).log10().floor().clamp(0.0, 9.0);
        let span = 10_f64.powf(seconds).round();
        let events = (frequency * span).round();
        if events < 1.0 { Err(BadRate::TooSlow) } else { Self::new(events as u64, Duration::from_secs(span as u64)) }
    }

    /// Events per second.
    #[must_use]
    pub fn per_second_f64(self) -> f64 {
        self.events as f64 * 1e9 / self.nanos as f64
    }

    /// The period in nanoseconds, rounded down.
    #[must_use]
    pub const fn period_ns(self) -> u64 {
        self.nanos / self.events
    }

    /// The time of `n` periods in ns, rounded up; saturates at `i64::MAX`.
    #[must_use]
    pub fn time_of(self, n: u64) -> i64 {
        let exact = (u128::from(n) * u128::from(self.nanos)).div_ceil(u128::from(self.events));
        i64::try_from(exact).unwrap_or(i64::MAX)
    }

    /// This rate increased by `percent`. Exact, unless the fraction needs more than 64 bits: then its lowest bits are dropped.
    pub(crate) fn faster_by(self, percent: u32) -> Self {
        let (mut events, mut nanos) =
            (u128::from(self.events) * (100 + u128::from(percent)), u128::from(self.nanos) * 100);
        let too_long = |n: u128| n >> 64 != 0;
        while too_long(events) || too_long(nanos) {
            (events, nanos) = (events >> 1, nanos >> 1);
        }
        let (events, nanos) = (events.max(1) as u64, nanos.max(1) as u64);
        let common = greatest_common_divisor(events, nanos);
        Self { events: events / common, nanos: nanos / common }
    }

    /// Whole periods in `ns` nanoseconds; 0 for a negative time.
    #[must_use]
    pub fn periods_in(self, ns: i64) -> u64 {
        let exact = u128::from(ns.max(0).unsigned_abs()) * u128::from(self.events) / u128::from(self.nanos);
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

/// A period as a rate: [`Rate::every`].
///
/// ```
/// use std::time::Duration;
/// use punctual::{Rate, Ticker};
///
/// let mut ticker = Ticker::new(Duration::from_millis(1).try_into()?);
/// assert_eq!(ticker.rate(), Rate::per_second(1000)?);
/// # Ok::<(), punctual::BadRate>(())
/// ```
impl TryFrom<Duration> for Rate {
    type Error = BadRate;

    fn try_from(period: Duration) -> Result<Self, BadRate> {
        Self::every(period)
    }
}

/// Deadlines at a rate from a start, each exact and rounded up to a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    rate: Rate,
    /// The next deadline, without its fraction.
    whole: Moment,
    /// Its fraction of a nanosecond, in units of 1/events.
    fraction: u64,
}

impl Grid {
    /// A grid with its first deadline at `start`.
    #[must_use]
    pub const fn new(rate: Rate, start: Moment) -> Self {
        Self { rate, whole: start, fraction: 0 }
    }

    /// The rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The next deadline, rounded up to a nanosecond.
    #[inline]
    #[must_use]
    pub const fn next(&self) -> Moment {
        self.whole.plus_nanos((self.fraction > 0) as i64)
    }

    /// Advances to the deadline after; costs no division for periods of whole nanoseconds.
    #[inline]
    pub fn advance(&mut self) {
        let Rate { events, nanos } = self.rate;
        // A period of whole nanoseconds, the usual case, has no fraction to carry.
        if events == 1 {
            self.whole = self.whole.plus_nanos(nanos as i64);
        } else {
            self.advance_by(1);
        }
    }

    /// Advances by `n` deadlines.
    pub fn advance_by(&mut self, n: u64) {
        let Rate { events, nanos } = self.rate;
        let units = u128::from(n) * u128::from(nanos) + u128::from(self.fraction);
        // Most times fit into 64 bits, where a division is several times faster.
        let (whole, fraction) = match u64::try_from(units) {
            Ok(units) => (u128::from(units / events), units % events),
            Err(_) => (units / u128::from(events), (units % u128::from(events)) as u64),
        };
        self.whole = self.whole.plus_nanos(i64::try_from(whole).unwrap_or(i64::MAX));
        self.fraction = fraction;
    }

    /// Makes `moment` the next deadline.
    pub fn restart_at(&mut self, moment: Moment) {
        (self.whole, self.fraction) = (moment, 0);
    }

    /// Changes the rate. The next deadline stays.
    pub fn set_rate(&mut self, rate: Rate) {
        (self.rate, self.fraction) = (rate, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// One step at a time, in jumps, or by the formula: the same deadlines.
        #[test]
        fn no_way_of_going_on_drifts(
            events in 1_u64..1_000_000_000, nanos in 1_u64..10_000_000_000_000, steps in 1_u64..3_000, jump in 1_u64..1_000_000_000,
        ) {
            prop_assume!(events <= nanos);
            let rate = Rate::new(events, Duration::from_nanos(nanos)).unwrap();
            let start = Moment::from_nanos(17);
            let mut grid = Grid::new(rate, start);
            for n in 0..steps {
                prop_assert_eq!(grid.next(), start.plus_nanos(rate.time_of(n)));
                grid.advance();
            }
            grid.advance_by(jump);
            prop_assert_eq!(grid.next(), start.plus_nanos(rate.time_of(steps + jump)));
        }

        #[test]
        fn periods_and_times_agree(events in 1_u64..1_000_000, nanos in 1_u64..u64::MAX / 2, n in 0_u64..1_000_000) {
            prop_assume!(events <= nanos);
            let rate = Rate::new(events, Duration::from_nanos(nanos)).unwrap();
            let time = rate.time_of(n);
            prop_assume!(time < i64::MAX);
            prop_assert_eq!(rate.periods_in(time), n);
            prop_assert!(n == 0 || rate.periods_in(time - 1) == n - 1);
        }

        #[test]
        fn any_frequency_is_answered(frequency in any::<f64>()) {
            if let Ok(rate) = Rate::hertz(frequency) {
                let kept = rate.per_second_f64();
                prop_assert!((kept / frequency - 1.0).abs() < 1e-8 || (kept - frequency).abs() <= 1e-9, "{kept} for {frequency}");
            }
        }
    }

    #[test]
    fn the_sampling_rate_of_audio_is_exact_after_a_thousand_million() {
        let rate = Rate::per_second(44_100).unwrap();
        let mut grid = Grid::new(rate, Moment::default());
        grid.advance_by(44_100 * 22_676);
        assert_eq!(grid.next(), Moment::from_nanos(22_676_000_000_000));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        assert_eq!(Rate::per_second(0), Err(BadRate::Zero));
        assert_eq!(Rate::every(Duration::ZERO), Err(BadRate::Zero));
        assert_eq!(Rate::every(Duration::MAX), Err(BadRate::TooSlow));
        assert_eq!(Rate::new(1, Duration::from_nanos(u64::MAX)), Err(BadRate::TooSlow));
        assert!(matches!(Rate::per_second(u64::MAX), Err(BadRate::TooFast(_))));
        assert!(matches!(Rate::hertz(-1.0), Err(BadRate::NotPositive(_))));
        assert!(matches!(Rate::hertz(f64::NAN), Err(BadRate::NotPositive(_))));
        assert!(matches!(Rate::hertz(f64::INFINITY), Err(BadRate::TooFast(_))));
        assert!(matches!(Rate::hertz(1e-300), Err(BadRate::TooSlow)));
        assert_eq!(Rate::hertz(0.01), Rate::every(Duration::from_secs(100)));
        assert_eq!(Rate::hertz(15_000.0), Rate::per_second(15_000));
    }

    #[test]
    fn far_out_it_saturates() {
        let rate = Rate::every(Duration::from_secs(1 << 33)).unwrap();
        let mut grid = Grid::new(rate, Moment::default());
        grid.advance_by(u64::MAX);
        assert_eq!(grid.next(), Moment::NEVER);
        assert_eq!(rate.time_of(u64::MAX), i64::MAX);
    }
}
