//! What became of messages: how many a second, what they cost the other side, and whether all arrived as they were sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of a series of messages: what its latencies do not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Messages (in ping-pong: round trips) a second while they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// CPU time of the other process per message; the series' own is that of the process that measures, which receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_cpu_ns_per_op: Option<f64>,
    /// Times per message that the other process gave up the CPU itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_voluntary_switches_per_op: Option<f64>,
    /// Times per message that the other process was preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_involuntary_switches_per_op: Option<f64>,
    /// Messages sent a whole interval or more after they were due; they count with all their lateness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_sends: Option<u64>,
    /// Whether the whole contents were checked, or only number and time.
    pub verified: bool,
    /// What went wrong.
    pub integrity: Integrity,
}

/// Messages that did not arrive once, whole and in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Integrity {
    /// Sent and never received.
    pub lost: u64,
    /// Received more than once.
    pub doubled: u64,
    /// Received with other contents than were sent.
    pub torn: u64,
    /// Received after one that was sent later.
    pub reordered: u64,
}

impl Integrity {
    /// All messages arrived once, whole and in order.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            doubled: self.doubled + other.doubled,
            torn: self.torn + other.torn,
            reordered: self.reordered + other.reordered,
        }
    }
}
