//! The builder of a [`Sleeper`].

use std::time::Duration;

use super::Sleeper;
use crate::margin::{Aim, BadAim, MarginLearner};
use crate::time::{Clock, SystemClock};

/// How a sleeper waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One absolute `clock_nanosleep(2)`: late by the kernel's wake-up latency, least CPU time.
    Native,
    /// The same, asked to end earlier by the typical wake-up latency, which it tracks. If it wakes too soon, it spins the rest, a few µs
    /// at most, so that it is never early.
    Compensated,
    /// Sleeps until a learned margin before the deadline, then spins on the CPU's counter.
    #[default]
    Hybrid,
}

/// The builder of a [`Sleeper`]; it can be sent to the thread that waits.
#[derive(Debug, Clone)]
pub struct SleeperOptions<C: Clock = SystemClock> {
    clock: C,
    strategy: Strategy,
    aim: Aim,
    longest_margin: Duration,
}

/// The default longest margin. An ordinary machine wakes within it under load. A thread that lost its CPU to another for milliseconds
/// cannot make up for that by spinning.
const LONGEST_MARGIN: Duration = Duration::from_micros(250);

impl SleeperOptions {
    /// Hybrid on `CLOCK_MONOTONIC`. It spends up to 2 ms of CPU time to avoid one wait that is over 1 µs late ([`Aim::Balanced`]).
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
    /// Sets the strategy (default: hybrid).
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> SleeperOptions<D> {
        SleeperOptions { clock, strategy: self.strategy, aim: self.aim, longest_margin: self.longest_margin }
    }

    /// Hybrid only: at most `within` late in a `share` of the waits (0.5 to 0.9999), at the least CPU time.
    pub fn lateness(mut self, within: Duration, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::lateness(within, share)?;
        Ok(self)
    }

    /// Hybrid only: the least lateness for at most a `share` of the time waited as CPU time. The share is above 0, and at most 1.
    ///
    /// The sleeping call itself costs some µs. A budget that pays for no more gives a native sleep.
    pub fn cpu_budget(mut self, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::cpu_budget(share)?;
        Ok(self)
    }

    /// Sets the longest margin, hence the longest spin after a sleep: 1 µs to 512 µs, clamped (default: 250 µs).
    #[must_use]
    pub fn longest_margin(mut self, longest: Duration) -> Self {
        self.longest_margin = longest;
        self
    }

    /// Builds a sleeper for the calling thread.
    #[must_use]
    pub fn build(self) -> Sleeper<C> {
        let cap = u32::try_from(self.longest_margin.as_nanos()).unwrap_or(MarginLearner::LARGEST_CAP_NS);
        Sleeper::from_options(self.clock, self.strategy, self.aim, cap)
    }
}
