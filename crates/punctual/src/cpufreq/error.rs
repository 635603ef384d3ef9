//! Errors of frequency settings, and what they lack.

use std::path::PathBuf;

use super::attribute::format_frequency;
use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::restore;

/// Why a virtual machine has no policy.
pub(super) const IN_A_VIRTUAL_MACHINE: &str =
    "in this virtual machine the hypervisor decides; nothing here can be changed";

/// Why a frequency setting could not be read or changed. [`Error::needs`] says what it lacks.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel shows no cpufreq policy.
    #[error("{} holds no frequency policy: {why}", at.display())]
    NotExposed {
        /// The folder of the policies.
        at: PathBuf,
        /// The cause, if the machine shows it.
        why: String,
    },
    /// No policy has this CPU.
    #[error("no frequency policy has CPU {cpu}")]
    NoSuchCpu {
        /// The requested CPU.
        cpu: usize,
    },
    /// A file, the journal or the lock.
    #[error(transparent)]
    Setting(#[from] restore::Error),
    /// The policy does not offer the governor.
    #[error("policy{policy} offers no governor {asked:?}, only {}", offered.join(", "))]
    UnknownGovernor {
        /// The policy.
        policy: usize,
        /// The requested governor.
        asked: String,
        /// The offered governors.
        offered: Vec<String>,
    },
    /// The policy does not have the attribute.
    #[error("policy{policy} ({driver}) has no {file}")]
    NoAttribute {
        /// The policy.
        policy: usize,
        /// Its driver.
        driver: String,
        /// The missing file.
        file: &'static str,
    },
    /// The governor is not `userspace`, so the speed cannot be set.
    #[error("policy{policy} is under the governor {governor}: a speed can be set under userspace only")]
    NotUserspace {
        /// The policy.
        policy: usize,
        /// Its governor.
        governor: String,
    },
    /// The frequency is outside the hardware's range.
    #[error(
        "{file} of policy{policy} (CPU {}) cannot be {}: it takes {} to {}",
        CpuSet::from_iter(cpus.iter().copied()), format_frequency(*asked_khz), format_frequency(*min_khz), format_frequency(*max_khz)
    )]
    OutOfRange {
        /// The file.
        file: &'static str,
        /// The policy.
        policy: usize,
        /// Its CPUs.
        cpus: Vec<usize>,
        /// The requested frequency.
        asked_khz: u64,
        /// The hardware's lowest frequency.
        min_khz: u64,
        /// The hardware's highest frequency.
        max_khz: u64,
    },
    /// The policy has no such frequency.
    #[error("policy{policy} has no step of {}, only {}", format_frequency(*asked_khz), steps(steps_khz))]
    NoSuchStep {
        /// The policy.
        policy: usize,
        /// The requested frequency.
        asked_khz: u64,
        /// Its frequencies.
        steps_khz: Vec<u64>,
    },
    /// The kernel accepted a value and shows another.
    #[error("policy{policy}: {file} was set to {set} and reads {found}")]
    NotKept {
        /// The policy.
        policy: usize,
        /// The file.
        file: &'static str,
        /// The value written.
        set: String,
        /// The value shown.
        found: String,
    },
    /// The machine has no lever that raises its speed.
    #[error("nothing here can raise the speed of CPU {cpu}: {why}")]
    NoLever {
        /// The CPU.
        cpu: usize,
        /// The levers tried.
        why: String,
    },
}

fn steps(khz: &[u64]) -> String {
    khz.iter().copied().map(format_frequency).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// The kernel's error number, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Setting(error) => error.errno(),
            _ => None,
        }
    }

    /// What would let it succeed.
    #[must_use]
    pub fn needs(&self) -> Need {
        match self {
            Self::NotExposed { why, .. } if why == IN_A_VIRTUAL_MACHINE => Need::Host,
            Self::NotExposed { .. } => Need::PerformanceStates,
            Self::NoSuchCpu { .. } => Need::AnOnlineCpu,
            Self::UnknownGovernor { asked, .. } => match asked.as_str() {
                "powersave" | "ondemand" | "conservative" | "userspace" | "performance" | "schedutil" => {
                    Need::GovernorModule(asked.clone())
                }
                _ => Need::OneOfThose,
            },
            Self::NoAttribute { .. } => Need::AttributeOfDriver,
            Self::NotUserspace { .. } => Need::Userspace,
            Self::NoSuchStep { .. } => Need::OneOfThose,
            Self::OutOfRange { .. } => Need::FrequencyInRange,
            Self::NotKept { .. } => Need::NoOtherFrequencySetter,
            Self::NoLever { .. } => Need::Lever,
            Self::Setting(error) => error.needs(),
        }
    }
}
