//! How long a polling loop spins and yields before it parks.

use std::time::Duration;

/// The limits of a [`super::Backoff`]: plain numbers, for those who know theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Polls followed by a spin hint. 0: yields at once.
    pub spins: u32,
    /// Polls after those, each followed by a yield. 0: parks at once.
    pub yields: u32,
    /// A yield that takes longer than this ends the yielding: the CPU is wanted by others.
    pub longest_yield: Duration,
}

impl Limits {
    /// Parks at once: least CPU time, highest latency.
    pub const PARK: Self = Self { spins: 0, yields: 0, longest_yield: Duration::ZERO };

    /// Never parks and never yields: lowest latency, the whole CPU. Only where a CPU is set aside for the loop.
    pub const SPIN: Self = Self { spins: u32::MAX, yields: 0, longest_yield: Duration::ZERO };
}
