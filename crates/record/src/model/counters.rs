//! The kernel's own counters, beside a budget of time.

use serde::{Deserialize, Serialize};

/// The CPU quota of a control group while it was watched (`cpu.stat`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// Its path below the mount.
    pub cgroup: String,
    /// The quota, ns a period.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
    /// Threads of the group that were watched.
    pub threads: u64,
    /// Periods in which the group was throttled.
    pub throttled: u64,
    /// For how long its runqueues were throttled, summed over CPUs, ns.
    pub throttled_ns: u64,
}

/// A sum beside the kernel's own counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetCheck {
    /// Which counter.
    pub counter: Counter,
    /// What the budget has, ns.
    pub summed_ns: u64,
    /// What the kernel counted, ns.
    pub counted_ns: u64,
    /// Of the time ready in the budget, that in which the CPU was idle: it was not awake yet. The kernel counts from the time at which a CPU
    /// takes the thread into its queue, so it lacks some of this. 0, and absent, for other counters.
    #[serde(default, skip_serializing_if = "is_none")]
    pub idle_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_none(ns: &u64) -> bool {
    *ns == 0
}

/// A counter of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Time on a CPU (`/proc/TID/schedstat`, first field).
    Running,
    /// Time ready (`/proc/TID/schedstat`, second field); it holds throttled time too.
    Ready,
    /// Throttled time of control groups (`cpu.stat`).
    Throttled,
}

/// The memory limit of a control group while it was watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLimit {
    /// Its path below the mount.
    pub cgroup: String,
    /// The limit: the lower one of `memory.max` and `memory.high`; of version 1 `memory.limit_in_bytes`.
    pub limit_bytes: u64,
    /// How often the group was at its limit: `max` or `high` of `memory.events`; of version 1 `memory.failcnt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Processes that the kernel killed because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Pages of files and of swap that were dropped and read again (`workingset_refault_*` of `memory.stat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_again: Option<u64>,
}

impl MemoryLimit {
    /// The limit for people: `64 MiB`, `1.5 GiB`.
    #[must_use]
    pub fn limit(&self) -> String {
        let (shift, unit) = match self.limit_bytes {
            bytes if bytes < 1 << 20 => (10, "KiB"),
            bytes if bytes < 1 << 30 => (20, "MiB"),
            _ => (30, "GiB"),
        };
        let number = self.limit_bytes as f64 / (1_u64 << shift) as f64;
        format!("{} {unit}", (number * 10.0).round() / 10.0)
    }
}

/// For how long tasks waited for a resource (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// Of this control group; absent for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// What they waited for.
    pub of: Resource,
    /// For how long at least one of the tasks waited, ns.
    pub some_ns: u64,
    /// For how long all that were not idle waited, ns; absent where the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_ns: Option<u64>,
}

/// A resource of which tasks may be short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// CPU time.
    #[default]
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

/// The time that the host gave to others (`/proc/stat`), of the CPUs that the threads may use. Of which thread it took the time is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steal {
    /// How many CPUs.
    pub cpus: u32,
    /// What the host took, summed over them, ns. It counts in ticks of 10 ms.
    pub ns: u64,
    /// Of this time of the CPUs, ns.
    pub of_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_limit_is_short_and_no_unit_is_rounded_away() {
        let limit = |limit_bytes| MemoryLimit { limit_bytes, ..MemoryLimit::default() }.limit();
        let said = [4096, 64 << 20, 1_610_612_736, 1 << 40].map(limit);
        assert_eq!(said, ["4 KiB", "64 MiB", "1.5 GiB", "1024 GiB"]);
    }
}
