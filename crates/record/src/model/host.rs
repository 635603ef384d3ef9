//! Facts about the machine that explain its lateness.

use serde::{Deserialize, Serialize};

use super::Hint;
use crate::experiment::Param;

/// The machine. A fact it does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Kernel release (`uname -r`).
    pub kernel: Option<String>,
    /// Kernel build (`uname -v`).
    pub kernel_version: Option<String>,
    /// Machine (`uname -m`).
    pub architecture: Option<String>,
    /// Preemption model: `none`, `voluntary`, `full`, `lazy`, `rt`; with `dynamic` kernels the one now in force if it can be
    /// read (debugfs, root only), otherwise `dynamic`.
    pub preemption: Option<String>,
    /// Timer interrupts a second (`CONFIG_HZ`), where the kernel's configuration can be read.
    pub hz: Option<u32>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpus_online: Option<u32>,
    /// CPUs present.
    pub cpus_present: Option<u32>,
    /// CPUs that this process may use (affinity, cpuset), as a list.
    pub cpus_allowed: Option<String>,
    /// Limit of CPU time by the cgroup (`cpu.max` or CFS quota), in CPUs.
    pub cpu_quota: Option<f64>,
    /// SMT active.
    pub smt: Option<bool>,
    /// Clock source (`tsc`, `kvm-clock`, ...).
    pub clocksource: Option<String>,
    /// Idle states.
    pub cpuidle: Option<Cpuidle>,
    /// Frequency scaling.
    pub cpufreq: Option<Cpufreq>,
    /// Hypervisor, where there is one (`kvm`, `xen`, ...; `unidentified` where only the CPU says that there is one).
    pub hypervisor: Option<String>,
    /// The emulator that ran this program on a CPU of another architecture (`qemu-aarch64-static`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
    /// Container runtime, where there is a sign of one.
    pub container: Option<String>,
    /// Timer slack that programs inherit.
    pub timer_slack_ns: Option<u64>,
    /// Limits on real-time scheduling.
    pub rt: RtLimits,
    /// CPUs isolated at boot (`isolcpus`), as a list; an empty one where the kernel says that there are none.
    pub isolated_cpus: Option<String>,
    /// CPUs without periodic tick (`nohz_full`), likewise.
    pub nohz_full_cpus: Option<String>,
    /// Memory, in kB.
    pub memory_kb: Option<u64>,
    /// Load average over one minute when the run began.
    pub load1: Option<f64>,
    /// Name of the machine: left out unless asked for, since it may be private.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Limits on real-time scheduling.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtLimits {
    /// `/proc/sys/kernel/sched_rt_period_us`.
    pub period_us: Option<i64>,
    /// `/proc/sys/kernel/sched_rt_runtime_us`; -1: no throttling.
    pub runtime_us: Option<i64>,
    /// What the fair servers keep for other threads, where they can be read: the largest share of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_server: Option<FairServer>,
    /// `RLIMIT_RTPRIO` of this process; 99 where it is unlimited.
    pub rtprio_limit: Option<u64>,
    /// May raise itself to real time (CAP_SYS_NICE effective).
    pub cap_sys_nice: Option<bool>,
    /// `RLIMIT_MEMLOCK` in bytes; absent with `memlock_unlimited`.
    pub memlock_bytes: Option<u64>,
    /// `RLIMIT_MEMLOCK` is unlimited.
    #[serde(default)]
    pub memlock_unlimited: Option<bool>,
    /// `/sys/kernel/realtime` is 1 (PREEMPT_RT).
    pub preempt_rt: Option<bool>,
}

/// The fair server of a CPU (`/sys/kernel/debug/sched/fair_server`, Linux 6.12 and later): so much of each period is for threads below
/// real time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FairServer {
    /// Of each period, for these threads.
    pub runtime_ns: u64,
    /// The period.
    pub period_ns: u64,
}

/// Idle states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpuidle {
    /// Driver (`intel_idle`, `acpi_idle`, `haltpoll`, `none`).
    pub driver: Option<String>,
    /// Governor (`menu`, `teo`, `haltpoll`).
    pub governor: Option<String>,
    /// Deepest state of CPU 0 that is not disabled.
    pub deepest_state: Option<String>,
    /// Its exit latency.
    pub deepest_exit_latency_us: Option<u32>,
}

/// Frequency scaling, as CPU 0 has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpufreq {
    /// Driver (`intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`).
    pub driver: Option<String>,
    /// Governors in force, one name where all CPUs agree.
    pub governors: Vec<String>,
    /// Lowest frequency allowed (`scaling_min_freq`).
    pub min_khz: Option<u64>,
    /// Highest frequency allowed (`scaling_max_freq`).
    pub max_khz: Option<u64>,
    /// Energy-performance preference.
    pub epp: Option<String>,
}

// The conditions of a measurement: requested, granted and refused.
//
// A set lists its settings by the names of the table of conditions (`punctual run --list-conditions`). So a new
// condition needs no new field. Each setting contains the phrase that reports show; its code and price are those of its
// [`Remedy`](crate::remedy::Remedy).

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionSet {
    /// Short name within the run, for instance `SCHED_FIFO 40, slack 1 ns`; series refer to it.
    pub label: String,
    /// What was asked and what held, a setting for each condition that could be read or was asked, in the table's order.
    pub settings: Vec<Setting>,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
}

/// One condition of a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// Its name in the table.
    pub condition: String,
    /// What was asked, as typed.
    pub asked: String,
    /// What the kernel said, and why.
    pub why: String,
    /// What would make it work.
    pub remedy: Hint,
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
