//! The choices that open a [`Sleeper`].

use std::time::Duration;

use super::Sleeper;
use crate::margin::{Aim, BadAim, MarginLearner};
use crate::time::{Clock, SystemClock};

/// How to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One absolute `clock_nanosleep`: late by the kernel's wake-up latency, cheapest.
    Native,
    /// The same, asked to end sooner by the typical wake-up latency, which is followed as it drifts. Where it wakes too soon, the
    /// rest (a few µs at most) is spun, so that it is not early.
    Compensated,
    /// Sleeps until a learned margin before the deadline, then spins on the CPU's counter.
    #[default]
    Hybrid,
}

/// The choices that open a [`Sleeper`]; may be sent to the thread that will wait.
#[derive(Debug, Clone)]
pub struct SleeperOptions<C: Clock = SystemClock> {
    clock: C,
    strategy: Strategy,
    aim: Aim,
    longest_margin: Duration,
}

/// The longest margin unless another is asked: an ordinary machine wakes within it under load; a thread whose CPU is taken by
/// another (milliseconds) cannot buy that off by spinning.
const LONGEST_MARGIN: Duration = Duration::from_micros(250);

impl SleeperOptions {
    /// Hybrid, up to 2 ms of CPU time to avoid a wait that is late by more than 1 µs ([`Aim::Balanced`]), on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: SystemClock::monotonic(),
            strategy: Strategy::default(),
            aim: Aim::default(),
            longest_margin: LONGEST_MARGIN,
        }
    }
}

impl Default for SleeperOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> SleeperOptions<C> {
    /// Chooses the strategy.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Chooses the clock: another of the kernel's, or a [`ManualClock`](crate::ManualClock) for tests.
    #[must_use]
    pub fn on<D: Clock>(self, clock: D) -> SleeperOptions<D> {
        SleeperOptions { clock, strategy: self.strategy, aim: self.aim, longest_margin: self.longest_margin }
    }

    /// Hybrid: at most `within` late in a `share` of the waits (0.5 to 0.9999), at the least CPU time.
    pub fn lateness(mut self, within: Duration, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::lateness(within, share)?;
        Ok(self)
    }

    /// Hybrid: at most a `share` (above 0, up to 1) of the time waited as CPU time, at the least lateness.
    ///
    /// The sleeping call itself costs some µs: where the budget does not pay for more, this is a native sleep.
    pub fn cpu_budget(mut self, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::cpu_budget(share)?;
        Ok(self)
    }

    /// The longest margin, so the longest spin after a sleep: 250 µs unless chosen, 1 µs to 512 µs.
    #[must_use]
    pub fn longest_margin(mut self, longest: Duration) -> Self {
        self.longest_margin = longest;
        self
    }

    /// Opens a sleeper for the calling thread.
    #[must_use]
    pub fn open(self) -> Sleeper<C> {
        let cap = u32::try_from(self.longest_margin.as_nanos()).unwrap_or(MarginLearner::LARGEST_CAP_NS);
        Sleeper::from_options(self.clock, self.strategy, self.aim, cap)
    }
}
