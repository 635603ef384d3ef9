//! [`Value`]: a condition with its value.

use std::fmt;
use std::time::Duration;

use crate::cpu_set::CpuSet;
use crate::cpufreq::format_frequency;
use crate::duration::format_duration;
use crate::policy::Policy;

/// A condition with its value. [`fmt::Display`] writes the value as it is typed: `fifo:40`, `1ns`, `0-3`, `yes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The scheduling policy.
    Policy(Policy),
    /// The nice value.
    Nice(i32),
    /// The CPUs that the thread may run on.
    Cpu(CpuSet),
    /// The timer slack.
    TimerSlack(Duration),
    /// The time slice under SCHED_OTHER and SCHED_BATCH.
    Slice(Duration),
    /// Whether the memory of the process is locked.
    LockMemory(bool),
    /// The longest exit latency of idle states.
    DmaLatency(Duration),
    /// The lowest CPU frequency.
    MinFrequency(Frequency),
    /// The highest CPU frequency.
    MaxFrequency(Frequency),
    /// The energy-performance preference.
    Epp(String),
    /// The CPU frequency governor.
    Governor(String),
    /// Whether interrupts leave the CPUs.
    IrqsAway(bool),
}

/// A limit of CPU frequency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frequency {
    /// In kHz.
    Khz(u64),
    /// The highest that is allowed.
    Highest,
    /// Read from CPUs with different limits, in kHz; it cannot be set.
    Mixed(Vec<u64>),
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Khz(khz) => f.write_str(&format_frequency(*khz)),
            Self::Highest => f.write_str("max"),
            Self::Mixed(all) => f.write_str(&all.iter().copied().map(format_frequency).collect::<Vec<_>>().join("/")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::Nice(nice) => nice.fmt(f),
            Self::Cpu(cpus) => cpus.fmt(f),
            Self::TimerSlack(duration) | Self::Slice(duration) => f.write_str(&format_duration(*duration)),
            Self::DmaLatency(Duration::ZERO) => f.write_str("0us"),
            Self::DmaLatency(latency) => f.write_str(&format_duration(*latency)),
            Self::LockMemory(held) | Self::IrqsAway(held) => f.write_str(if *held { "yes" } else { "no" }),
            Self::MinFrequency(limit) | Self::MaxFrequency(limit) => limit.fmt(f),
            Self::Epp(name) | Self::Governor(name) => f.write_str(name),
        }
    }
}
