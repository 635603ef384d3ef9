//! What a sleep adds, and what reading the clock costs.

use serde::{Deserialize, Serialize};

words! {
    /// Which figure a series holds.
    pub enum Figure {
        /// TN: what a sleep adds, per round.
        SleepAdds = "sleep_adds",
        /// TS + TE: what reading the clock costs, per round.
        ClockCosts = "clock_costs",
        /// The proof: sleeps as asked.
        Plain = "plain",
        /// The proof: sleeps shortened by TN.
        Compensated = "compensated",
        /// The proof: sleeps shortened by what sleeps of that length added just before.
        Remeasured = "remeasured",
        /// The proof: the library's compensated sleeper.
        CompensatedSleeper = "compensated_sleeper",
    }
}

/// The request: it identifies a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// The figure that the series holds.
    pub figure: Figure,
    /// The length of the sleep, in a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<i64>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// What was taken off each sleep of a proof, on average over its turns.
        shortened_by_ns: f64 => mean,
        /// Cost of one reading of the clock, measured by itself.
        clock_read_ns: f64 => mean,
        /// Pairs of readings without a sleep between them, of which TS + TE is the median. Absent: it was extrapolated from sleeps.
        pairs: u64 => sum,
        /// 5th percentile of TN over the rounds.
        p5_ns: f64 => mean,
        /// 95th percentile of TN over the rounds.
        p95_ns: f64 => mean,
        /// Drift of TN per second.
        drift_ns_per_s: f64 => mean,
    }
}
