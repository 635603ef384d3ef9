//! The builder of a [`Pacer`].

use std::time::Duration;

use super::{BatchSize, CatchUp, Pacer};
use crate::rate::Rate;
use crate::sleeper::SleeperOptions;
use crate::time::{Clock, SystemClock};

/// The part of the jitter reserved for the sleeper's lateness. A wake-up later than this exceeds the jitter by the difference.
const SLEEPER_JITTER: Duration = Duration::from_micros(1);

/// The builder of a [`Pacer`]; it can be sent to the thread that paces.
#[derive(Debug, Clone)]
pub struct PacerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Rate,
    batch: BatchSize,
    catch_up: CatchUp,
}

impl PacerOptions {
    /// Single events, catching up at once, with a hybrid sleeper on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { sleeper: SleeperOptions::new(), rate, batch: BatchSize::Fixed(1), catch_up: CatchUp::default() }
    }
}

impl<C: Clock> PacerOptions<C> {
    /// Sets the events per batch, 1 to [`LARGEST_BATCH`](super::LARGEST_BATCH), clamped.
    #[must_use]
    pub fn batch(mut self, events: u64) -> Self {
        self.batch = BatchSize::Fixed(events);
        self
    }

    /// Makes batches as large as this jitter allows. An event leaves at most `jitter` after its time, plus any wake-up lateness above 1 µs.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.batch = BatchSize::Jitter(jitter.saturating_sub(SLEEPER_JITTER));
        self
    }

    /// Sets what happens to overdue events (default: `AtOnce`).
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Sets the sleeper, its clock included.
    #[must_use]
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> PacerOptions<D> {
        PacerOptions { sleeper, rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> PacerOptions<D> {
        PacerOptions { sleeper: self.sleeper.clock(clock), rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Builds a pacer for the calling thread.
    #[must_use]
    pub fn build(self) -> Pacer<C> {
        Pacer::start(self.sleeper.build(), self.rate, self.batch, self.catch_up)
    }
}
