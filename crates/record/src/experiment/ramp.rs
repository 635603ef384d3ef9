//! Loops of equal work, from rest to full speed. The subject is the governor, or `as found`.

use serde::{Deserialize, Serialize};

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// Loops per round.
    pub loops: u32,
    /// What a loop takes at full speed.
    pub work_ns: i64,
    /// Rest before each round.
    pub rest_ns: i64,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// The CPU.
        cpu: u32 => same,
        /// Steps of work in a loop.
        steps: i64 => mean,
        /// The fastest loop of the run.
        best_ns: i64 => least,
        /// The first loop after the rest, median of the rounds.
        first_ns: i64 => mean,
        /// The last loop, median of the rounds.
        final_ns: i64 => mean,
        /// Rounds that reached full speed.
        rounds_at_full_speed: u64 => sum,
        /// Work until full speed, median of the rounds that reached it, where most did.
        to_full_speed_ns: i64 => mean,
        /// Frequency transitions that the kernel counted, all rounds together.
        transitions: u64 => sum,
        /// Frequency after the last loop, median of the rounds.
        ended_khz: i64 => mean,
        /// Driver of the CPU's frequency.
        driver: String => same,
        /// Highest frequency allowed.
        max_khz: i64 => same,
        /// Governor threads that were raised for the run.
        raised: String => same,
        /// Why it did not reach full speed.
        why: String => same,
        /// Share of the loops that were interrupted.
        interrupted_share: f64 => mean,
        /// What an interrupted loop lost, median.
        interruption_ns: i64 => mean,
        /// Spread of the loops without what interrupted them, as a share of their median.
        own_spread: f64 => mean,
    }
}
