//! A call to yield, alone and against competitors on its CPU.

use serde::{Deserialize, Serialize};

words! {
    /// What a competitor is.
    pub enum CompetitorKind {
        /// A process of its own.
        Process = "process",
        /// A thread of the same process.
        Thread = "thread",
    }
}

words! {
    /// How the scheduler ranks a competitor against the caller.
    pub enum Rank {
        /// It goes first.
        Higher = "higher",
        /// Neither goes first.
        Same = "same",
        /// The caller goes first.
        Lower = "lower",
    }
}

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// Busy competitors on the CPU.
    pub competitors: u32,
    /// What they are; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_kind: Option<CompetitorKind>,
    /// Their scheduling, for instance `SCHED_BATCH`, or `as found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_policy: Option<String>,
    /// Their rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_rank: Option<Rank>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// The system calls that were seen, by name; `none` where there were none.
        observed: String => same,
        /// Cost of a call in a bare loop, without readings of the clock.
        bare_ns: f64 => mean,
        /// CPU time of a call in the bare loop, by the thread's CPU clock.
        bare_cpu_ns: f64 => mean,
        /// The part of `bare_cpu_ns` in user mode; absent where the loop met too few of the kernel's ticks.
        user_ns_per_op: f64 => mean,
        /// The rest of `bare_cpu_ns`.
        system_ns_per_op: f64 => mean,
        /// Share of the calls during which a competitor ran.
        yielded_share: f64 => mean,
        /// Share of the CPU that the competitors got.
        competitor_cpu_share: f64 => mean,
        /// Share of the CPU that the caller used.
        own_cpu_share: f64 => mean,
    }
}
