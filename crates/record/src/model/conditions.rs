//! The conditions of a measurement: what was asked, what the kernel granted, what it refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One set of conditions. Where several are put side by side, a run has several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionSet {
    /// Short name within the run, for instance `fifo:40, slack 1ns`; series refer to it.
    pub label: String,
    /// What was asked. Absent: left as it was found.
    pub asked: Asked,
    /// What held while it was measured, read back from the kernel.
    pub applied: Applied,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Scheduling policy as typed, for instance `fifo:40`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Nice value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// CPUs, as a list (`0-3,8`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Memory locked and stack pre-faulted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_memory: Option<bool>,
    /// Timer slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// Largest C-state exit latency tolerated (`/dev/cpu_dma_latency`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma_latency_us: Option<u32>,
    /// CPU frequency governor set for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
}

/// What held, as the kernel told it. Absent: it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Scheduling policy, for instance `fifo:40` or `other`.
    pub policy: Option<String>,
    /// Nice value.
    pub nice: Option<i32>,
    /// CPUs that the thread may run on.
    pub cpus: Option<String>,
    /// Memory locked.
    pub lock_memory: Option<bool>,
    /// Timer slack of the measured thread. The kernel ignores it under real-time policies.
    pub timer_slack_ns: Option<u64>,
    /// `/dev/cpu_dma_latency` as held by this run.
    pub dma_latency_us: Option<u32>,
    /// CPU frequency governor of the measured CPUs, where this run set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
}

/// A condition that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Which: `policy`, `nice`, `cpu`, `lock-memory`, `timer-slack`, `dma-latency`, `governor`.
    pub condition: String,
    /// What was asked.
    pub asked: String,
    /// What the kernel said, and why.
    pub why: String,
    /// What would make it work.
    pub remedy: String,
}
