//! Messages between two processes.

use serde::{Deserialize, Serialize};

words! {
    /// How messages are sent.
    pub enum Mode {
        /// There and back, one at a time.
        PingPong = "ping-pong",
        /// One way, with a pause after each.
        Sporadic = "sporadic",
        /// One way, at a rate, whether or not the receiver keeps up.
        Rate = "rate",
        /// One way, as fast as they are taken.
        Saturated = "saturated",
    }
}

words! {
    /// Where the two processes run.
    pub enum Placement {
        /// On one CPU.
        SameCpu = "same-cpu",
        /// Each on a CPU of its own.
        TwoCpus = "two-cpus",
        /// Wherever the scheduler puts them.
        AnyCpu = "any-cpu",
    }
}

words! {
    /// How the receiver waits.
    pub enum Receive {
        /// In the kernel, until a message is there.
        Block = "block",
        /// By asking again and again.
        Poll = "poll",
        /// Polling first, then blocking.
        Backoff = "backoff",
    }
}

/// The request: it identifies a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// Bytes of a message.
    pub size: u64,
    /// How the messages are sent.
    pub mode: Mode,
    /// Where the two processes run.
    pub place: Placement,
    /// How the receiver waits for them.
    pub receive: Receive,
    /// The sender's CPU, where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_cpu: Option<u32>,
    /// The receiver's CPU, where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_cpu: Option<u32>,
    /// From one message to the next, in the modes that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<i64>,
    /// Messages that the channel holds, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
}

/// The latencies of consecutive messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// The smallest latency.
    pub min_ns: i64,
    /// Their mean.
    pub mean_ns: f64,
    /// The largest latency.
    pub max_ns: i64,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// Messages a second.
        per_second: f64 => mean,
        /// CPU time of the other process per message.
        peer_cpu_ns: f64 => mean,
        /// Voluntary context switches of the other process per message.
        peer_voluntary_switches: f64 => mean,
        /// Involuntary context switches of the other process per message.
        peer_involuntary_switches: f64 => mean,
        /// Messages that left after they were due.
        late_sends: u64 => sum,
        /// Contents were verified.
        verified: bool => same,
        /// Messages that did not arrive.
        lost: u64 => sum,
        /// Messages that arrived more than once.
        duplicates: u64 => sum,
        /// Messages that arrived with other contents.
        torn: u64 => sum,
        /// Messages that arrived out of order.
        reordered: u64 => sum,
        /// Messages of each block, where blocks were asked for.
        block_messages: u64 => same,
        /// The blocks in their order, at most some thousands.
        blocks: Vec<Block> => joined,
    }
}
