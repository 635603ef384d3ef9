//! A receiver that polls for a message a number of times before it gives up the CPU.

use serde::{Deserialize, Serialize};

words! {
    /// What runs on the receiver's CPU meanwhile.
    pub enum Load {
        /// Nothing else.
        Idle = "idle",
        /// A busy competitor.
        Busy = "busy",
    }
}

words! {
    /// Where the sender runs.
    pub enum SenderPlace {
        /// On the receiver's CPU.
        SameCpu = "same-cpu",
        /// On another CPU.
        OtherCpu = "other-cpu",
    }
}

/// The request: it identifies a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// What runs on the receiver's CPU.
    pub load: Load,
    /// Where the sender runs.
    pub sender: SenderPlace,
    /// Polls before the CPU is given up; 0: never given up. Absent for receivers that do not count polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls: Option<u32>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// Share of the CPU that the competitor got while no message came.
        competitor_cpu_share: f64 => mean,
        /// Share of the CPU that the receiver used meanwhile.
        own_cpu_share: f64 => mean,
    }
}
