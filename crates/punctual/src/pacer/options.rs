//! The choices that open a [`Pacer`].

use std::time::Duration;

use super::{Batch, CatchUp, Pacer};
use crate::rate::Rate;
use crate::sleeper::SleeperOptions;
use crate::time::{Clock, SystemClock};

/// What a hybrid sleeper itself adds to the jitter in nearly all waits: 1 µs.
const SLEEPER_JITTER: Duration = Duration::from_micros(1);

/// The choices that open a [`Pacer`]; may be sent to the thread that will pace.
#[derive(Debug, Clone)]
pub struct PacerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Rate,
    batch: Batch,
    catch_up: CatchUp,
}

impl PacerOptions {
    /// Single events, evenly spaced, catching up at once, by a hybrid sleeper on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { sleeper: SleeperOptions::new(), rate, batch: Batch::Fixed(1), catch_up: CatchUp::default() }
    }
}

impl<C: Clock> PacerOptions<C> {
    /// Batches of so many events, 1 to [`LARGEST_BATCH`](super::LARGEST_BATCH).
    #[must_use]
    pub fn batch(mut self, events: u64) -> Self {
        self.batch = Batch::Fixed(events);
        self
    }

    /// Batches as large as this jitter allows: no event leaves later than so long after its time, as far as the machine lets it.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.batch = Batch::Jitter(jitter.saturating_sub(SLEEPER_JITTER));
        self
    }

    /// What happens to events that are overdue.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// How it sleeps, its clock included.
    #[must_use]
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> PacerOptions<D> {
        PacerOptions { sleeper, rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Chooses the clock: another of the kernel's, or a [`ManualClock`](crate::ManualClock) for tests.
    #[must_use]
    pub fn on<D: Clock>(self, clock: D) -> PacerOptions<D> {
        PacerOptions { sleeper: self.sleeper.on(clock), rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Opens a pacer for the calling thread.
    #[must_use]
    pub fn open(self) -> Pacer<C> {
        Pacer::start(self.sleeper.open(), self.rate, self.batch, self.catch_up)
    }
}
