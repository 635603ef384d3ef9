//! How a wait ended.

use std::time::Duration;

use crate::time::Moment;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The deadline.
    pub deadline: Moment,
    /// When the wait ended, on the same clock; never before the deadline.
    pub woke_at: Moment,
    /// Time without the CPU, wake-up latency included.
    pub slept: Duration,
    /// Time spent spinning.
    pub spun: Duration,
    /// The wait was shorter than a wake-up takes, but the strategy slept. [`Strategy::Hybrid`](super::Strategy::Hybrid) with a lateness to
    /// keep spins instead.
    pub too_short: bool,
}

impl Wake {
    /// How late the wait ended; zero at the earliest.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}
