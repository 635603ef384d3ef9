//! How a wait ended.

use std::time::Duration;

use crate::time::Moment;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// When it was to end.
    pub deadline: Moment,
    /// When it ended, by the same clock; never before the deadline.
    pub woke_at: Moment,
    /// How long the CPU was given up, the wake-up latency included.
    pub slept: Duration,
    /// How long the CPU was kept.
    pub spun: Duration,
    /// The wait was shorter than what the kernel takes to wake a thread, and the strategy slept all the same:
    /// [`Strategy::Hybrid`](super::Strategy::Hybrid) with a lateness to keep would have spun.
    pub too_short: bool,
}

impl Wake {
    /// How late it was.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}
