//! The highest rate that a method of pacing holds.

use serde::{Deserialize, Serialize};

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// The rate that the search begins at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_per_second: Option<f64>,
    /// The highest rate of the search.
    pub to_per_second: f64,
    /// The 99th percentile of lateness that a rate must keep to count as held.
    pub within_ns: i64,
    /// Where to, as `udp ADDRESS:PORT`; `tick-only` where nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Bytes of a datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// The highest rate that was held, in events a second.
        highest_rate_held: f64 => mean,
        /// The rate that was reached there.
        rate_reached: f64 => mean,
        /// The lowest rate that was not held.
        rate_not_held: f64 => mean,
        /// Why it was not held.
        why_not_higher: String => same,
    }
}
