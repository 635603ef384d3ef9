//! Datagrams, or bare ticks, at a rate.

use serde::{Deserialize, Serialize};

words! {
    /// Which end a series is of.
    pub enum Measured {
        /// The sender's: as they leave.
        Departure = "departure",
        /// The receiver's: as they arrive.
        Arrival = "arrival",
    }
}

words! {
    /// Who took the time of a departure.
    pub enum DepartureClock {
        /// The kernel's transmit time stamp.
        KernelStamp = "kernel-stamp",
        /// The clock, read before the call.
        BeforeCall = "before-call",
    }
}

/// The request: it identifies a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// Datagrams or ticks a second.
    pub rate_per_second: f64,
    /// The end that the series is of.
    pub measured: Measured,
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
        /// Departures that were due.
        events: u64 => sum,
        /// Who took their time; absent where trials differ.
        departure: DepartureClock => same,
        /// The rate that was reached.
        rate_reached: f64 => mean,
        /// That rate as a share of the one asked.
        rate_share: f64 => mean,
        /// The median of the rates that single trials reached.
        rate_p50: f64 => mean,
        /// Lower end of its 95 % confidence interval.
        rate_p50_low: f64 => mean,
        /// Upper end of its 95 % confidence interval.
        rate_p50_high: f64 => mean,
        /// Drift of the period, in millionths.
        drift_ppm: f64 => mean,
        /// Lower end of its 95 % confidence interval.
        drift_ppm_low: f64 => mean,
        /// Upper end of its 95 % confidence interval.
        drift_ppm_high: f64 => mean,
        /// Datagrams that could not be sent when they were due.
        not_sent: u64 => sum,
        /// Datagrams that the kernel refused.
        refused: u64 => sum,
        /// Datagrams that arrived.
        received: u64 => sum,
        /// Datagrams that did not arrive.
        lost: u64 => sum,
        /// Datagrams that arrived out of order.
        reordered: u64 => sum,
        /// Datagrams that arrived more than once.
        duplicates: u64 => sum,
        /// Streams that were received.
        streams: u64 => sum,
    }
}
