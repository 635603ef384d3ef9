//! The progress of the rounds.

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

/// Time since a reading of the clock.
pub(super) fn since(begin_ns: i64) -> Duration {
    Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs())
}

/// The beginning and the planned duration of the rounds.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) begin_ns: i64,
    pub(super) total: Duration,
}

impl Course {
    pub(super) fn gone(&self) -> Duration {
        since(self.begin_ns)
    }

    pub(super) fn left(&self) -> Duration {
        self.total.saturating_sub(self.gone())
    }

    pub(super) fn done(&self) -> f64 {
        (self.gone().as_secs_f64() / self.total.as_secs_f64().max(1e-9)).min(1.0)
    }
}
