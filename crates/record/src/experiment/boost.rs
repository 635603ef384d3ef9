//! A periodic task as found, boosted around its activations, and at full speed. The subject says which.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// From one activation to the next.
    pub period_ns: i64,
    /// Work of an activation, as it takes at full speed.
    pub work_ns: i64,
    /// From an activation to the time when its work must be done.
    pub deadline_ns: i64,
    /// Activations per round.
    pub periods: u32,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// The CPU.
        cpu: u32 => same,
        /// The governor as found, under which the task ran.
        governor: String => same,
        /// Highest frequency allowed.
        max_khz: i64 => same,
        /// Steps of work in an activation.
        steps: i64 => mean,
        /// Deadlines met.
        met: u64 => sum,
        /// Deadlines missed.
        missed: u64 => sum,
        /// Mean frequency, idle time included, where the kernel counts.
        mean_khz: i64 => mean,
        /// Share of the time at each frequency, by kHz.
        residency: BTreeMap<u64, f64> => mean_of_each,
        /// Power of all packages (RAPL).
        power_mw: i64 => mean,
        /// By what the boost raises the speed.
        lever: String => same,
        /// How long before an activation it raises, median.
        lead_ns: i64 => mean,
        /// Times that it raised or lowered.
        switches: u64 => sum,
        /// Cost of one such change.
        switching_ns: i64 => mean,
        /// Share of the time raised.
        raised_share: f64 => mean,
        /// Loops from which it learned its lead.
        learned: u64 => sum,
        /// Share of the time spent learning.
        learning_share: f64 => mean,
        /// Activations that began below full speed.
        not_at_full_speed: u64 => sum,
        /// The frequency that counts as full speed.
        full_khz: i64 => same,
    }
}
