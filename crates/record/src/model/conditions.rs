//! The conditions of a measurement: requested, granted and refused.
//!
//! A set lists its settings by the names of the table of conditions (`punctual run --list-conditions`). So a new
//! condition needs no new field. Each setting contains the phrase that reports show; its code and price are those of its
//! [`Remedy`](crate::remedy::Remedy).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::Param;

/// Name of the condition whose value is a scheduling policy, as typed (`fifo:40`, `other`).
pub const POLICY: &str = "policy";
/// Name of the condition whose value is a nice value.
pub const NICE: &str = "nice";
/// Name of the condition whose value is a timer slack, in ns.
pub const TIMER_SLACK: &str = "timer-slack";
/// Name of the condition whose value is a list of CPUs (`0-3,8`).
pub const CPU: &str = "cpu";
/// Name of the condition whose value is the longest exit latency of idle states, in ns.
pub const DMA_LATENCY: &str = "dma-latency";

/// One set of conditions. Where several are compared, a run has several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionSet {
    /// Short name within the run, for instance `SCHED_FIFO 40, slack 1 ns`; series refer to it.
    pub label: String,
    /// What was asked and what held, a setting for each condition that could be read or was asked, in the table's order.
    pub settings: Vec<Setting>,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
}

/// One condition of a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name in the table: `policy`, `nice`, `cpu`, `lock-memory`, `timer-slack`, `dma-latency`, `governor`, ...
    pub condition: String,
    /// What was asked. Absent: left as it was found. Durations are in ns, frequencies in kHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Param>,
    /// What held while it was measured, read back from the kernel. Absent: it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Param>,
    /// What held, or what was asked where that could not be read, for people: `SCHED_FIFO 40`, `slack 1 ns`, `C-states off`.
    pub phrase: String,
}

/// A condition that the kernel refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Its name in the table.
    pub condition: String,
    /// What was asked, as typed.
    pub asked: String,
    /// What the kernel said, and why.
    pub why: String,
    /// What would make it work.
    pub remedy: String,
}

impl ConditionSet {
    /// The setting of a condition.
    #[must_use]
    pub fn setting(&self, condition: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.condition == condition)
    }

    /// The scheduling policy that held, or that was asked where it could not be read: `fifo:40`, `other`.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        let setting = self.setting(POLICY)?;
        match setting.asked.as_ref().filter(|_| !self.refuses(POLICY)).or(setting.applied.as_ref()) {
            Some(Param::Text(policy)) => Some(policy),
            _ => None,
        }
    }

    /// Whether a thread under it can keep a CPU from all ordinary threads: SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.policy().is_some_and(|policy| ["fifo", "rr", "deadline"].iter().any(|name| policy.starts_with(name)))
    }

    /// The timer slack that held, in ns.
    #[must_use]
    pub fn timer_slack_ns(&self) -> Option<i64> {
        match self.setting(TIMER_SLACK)?.applied {
            Some(Param::Int(ns)) => Some(ns),
            _ => None,
        }
    }

    /// Whether this condition was refused.
    #[must_use]
    pub fn refuses(&self, condition: &str) -> bool {
        self.refused.iter().any(|refusal| refusal.condition == condition)
    }
}
