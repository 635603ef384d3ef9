//! The builder of a [`Ticker`].

use std::time::Duration;

use super::{MissedTickBehavior, Ticker};
use crate::rate::{BadRate, Rate};
use crate::sleeper::SleeperOptions;
use crate::time::{Clock, Moment, SystemClock};

/// The time of the first tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// One period after [`TickerOptions::build`].
    Soon,
    /// At this moment of the clock.
    At(Moment),
    /// At the next multiple of this duration on the clock.
    Whole(Duration),
}

/// The builder of a [`Ticker`]; it can be sent to the thread that ticks.
#[derive(Debug, Clone)]
pub struct TickerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Result<Rate, BadRate>,
    start: Start,
    behavior: MissedTickBehavior,
}

impl TickerOptions {
    /// A period of 1 s, the first tick one period after [`build`](Self::build), missed ticks skipped, a hybrid sleeper on
    /// `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sleeper: SleeperOptions::new(),
            rate: Rate::per_second(1),
            start: Start::Soon,
            behavior: MissedTickBehavior::default(),
        }
    }
}

impl Default for TickerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> TickerOptions<C> {
    /// Sets the period, 1 ns to 292 years; [`build`](Self::build) refuses others.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.rate = Rate::every(period);
        self
    }

    /// Sets the frequency in ticks per second, 10⁻⁹ to 10⁹; [`build`](Self::build) refuses others.
    #[must_use]
    pub fn hertz(mut self, frequency: f64) -> Self {
        self.rate = Rate::hertz(frequency);
        self
    }

    /// Sets an exact rate.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Ok(rate);
        self
    }

    /// Puts the first tick at `start`: a [`Moment`] of the ticker's clock or, on `CLOCK_MONOTONIC`, an [`Instant`](std::time::Instant).
    /// After a start in the past, the ticks since then are late: the [`MissedTickBehavior`] decides.
    #[must_use]
    pub fn starting_at(mut self, start: impl Into<Moment>) -> Self {
        self.start = Start::At(start.into());
        self
    }

    /// Puts the first tick at the next multiple of `unit` on the ticker's clock. On [`SystemClock::wall`] with a unit of 1 s, that is a
    /// whole second of the wall clock.
    #[must_use]
    pub fn starting_at_whole(mut self, unit: Duration) -> Self {
        self.start = Start::Whole(unit);
        self
    }

    /// Sets what happens to missed ticks (default: `Skip`).
    #[must_use]
    pub fn missed_tick_behavior(mut self, behavior: MissedTickBehavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Sets the sleeper, its clock included.
    #[must_use]
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> TickerOptions<D> {
        TickerOptions { sleeper, rate: self.rate, start: self.start, behavior: self.behavior }
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> TickerOptions<D> {
        TickerOptions {
            sleeper: self.sleeper.clock(clock),
            rate: self.rate,
            start: self.start,
            behavior: self.behavior,
        }
    }

    /// Builds a ticker for the calling thread. Refuses an invalid rate.
    pub fn build(self) -> Result<Ticker<C>, BadRate> {
        let rate = self.rate?;
        let sleeper = self.sleeper.build();
        let start = match self.start {
            Start::Soon => None,
            Start::At(start) => Some(start),
            Start::Whole(unit) => {
                let (now, unit) = (sleeper.now().as_nanos(), i64::try_from(unit.as_nanos()).unwrap_or(i64::MAX).max(1));
                Some(sleeper.now().plus_nanos(unit - now.rem_euclid(unit)))
            }
        };
        Ok(Ticker::start(sleeper, rate, start, self.behavior))
    }
}
