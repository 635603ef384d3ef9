//! How long a polling loop spins and yields before it parks: [`Limits`].

use std::time::Duration;

/// The limits of a [`super::Backoff`], for programs that know theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Polls followed by a spin hint. 0: yield at once.
    pub spins: u32,
    /// Polls after those, each followed by a yield. 0: park at once.
    pub yields: u32,
    /// A yield longer than this ends the yielding: other threads want the CPU.
    pub longest_yield: Duration,
}

impl Limits {
    /// Parks at once: least CPU time, highest latency.
    pub const PARK: Self = Self { spins: 0, yields: 0, longest_yield: Duration::ZERO };

    /// Never parks and never yields: lowest latency, a whole CPU. Only for a CPU reserved for the loop.
    pub const SPIN: Self = Self { spins: u32::MAX, yields: 0, longest_yield: Duration::ZERO };
}
