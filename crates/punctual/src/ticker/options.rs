//! The choices that open a [`Ticker`].

use std::time::Duration;

use super::{Missed, Ticker};
use crate::rate::{BadRate, Rate};
use crate::sleeper::SleeperOptions;
use crate::time::{Clock, Moment, SystemClock};

/// When the first tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// One period after opening.
    Soon,
    /// At a moment of the clock.
    At(Moment),
    /// At the next whole multiple of a duration on the clock.
    Whole(Duration),
}

/// The choices that open a [`Ticker`]; may be sent to the thread that will tick.
#[derive(Debug, Clone)]
pub struct TickerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Result<Rate, BadRate>,
    start: Start,
    behaviour: Missed,
}

impl TickerOptions {
    /// A second's period, first tick in one period, missed ticks skipped, a hybrid sleeper on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sleeper: SleeperOptions::new(),
            rate: Rate::per_second(1),
            start: Start::Soon,
            behaviour: Missed::default(),
        }
    }
}

impl Default for TickerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> TickerOptions<C> {
    /// A period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.rate = Rate::every(period);
        self
    }

    /// A frequency in ticks a second.
    #[must_use]
    pub fn hertz(mut self, frequency: f64) -> Self {
        self.rate = Rate::hertz(frequency);
        self
    }

    /// An exact rate.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Ok(rate);
        self
    }

    /// The first tick at `start` of the ticker's clock. One in the past: the ticks since then are missed, or burst.
    #[must_use]
    pub fn starting_at(mut self, start: Moment) -> Self {
        self.start = Start::At(start);
        self
    }

    /// The first tick at the next whole multiple of `unit` on the ticker's clock: on [`SystemClock::wall`], with a unit of one second, ticks
    /// fall on whole seconds of the wall clock.
    #[must_use]
    pub fn starting_at_whole(mut self, unit: Duration) -> Self {
        self.start = Start::Whole(unit);
        self
    }

    /// What becomes of missed ticks.
    #[must_use]
    pub fn missed(mut self, behaviour: Missed) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// How it sleeps, its clock included.
    #[must_use]
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> TickerOptions<D> {
        TickerOptions { sleeper, rate: self.rate, start: self.start, behaviour: self.behaviour }
    }

    /// Chooses the clock: another of the kernel's, or a [`ManualClock`](crate::ManualClock) for tests.
    #[must_use]
    pub fn on<D: Clock>(self, clock: D) -> TickerOptions<D> {
        TickerOptions { sleeper: self.sleeper.on(clock), rate: self.rate, start: self.start, behaviour: self.behaviour }
    }

    /// Opens a ticker for the calling thread. Refuses a rate that is none.
    pub fn open(self) -> Result<Ticker<C>, BadRate> {
        let rate = self.rate?;
        let sleeper = self.sleeper.open();
        let start = match self.start {
            Start::Soon => None,
            Start::At(start) => Some(start),
            Start::Whole(unit) => {
                let (now, unit) = (sleeper.now().as_nanos(), i64::try_from(unit.as_nanos()).unwrap_or(i64::MAX).max(1));
                Some(sleeper.now().plus_nanos(unit - now.rem_euclid(unit)))
            }
        };
        Ok(Ticker::start(sleeper, rate, start, self.behaviour))
    }
}
