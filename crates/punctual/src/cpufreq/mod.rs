//! CPU frequency: reads its settings, changes them temporarily, and restores them exactly.
//!
//! A [`Cpufreq`] is a root of the file system (`/`, or a fixture tree) with a folder for the journal. It gives [`CpufreqPolicy`]s to read,
//! and a [`GovernorGuard`] that may change them. A [`Boost`] raises the speed around each activation of a periodic task. Dropping the guard
//! restores the settings, even during unwinding. If the process dies without unwinding, even by SIGKILL, a keeper process restores them. If
//! both die, the next guard (or `punctual governor restore`) follows the journal.
//!
//! Refused: governors that a policy does not offer, frequencies outside the hardware's range, and a second program with
//! a guard. Errors say what they lack ([`Error::needs`]).
//!
//! Layers: system < threads < guard < permanent; lead, lever, work, guard < boost. Journal, keeper and lock are
//! [`crate::restore`]'s.
//!
//! ```no_run
//! use punctual::cpufreq::Cpufreq;
//! use punctual::restore::LockWait;
//!
//! # fn main() -> Result<(), punctual::cpufreq::Error> {
//! let mut guard = Cpufreq::system().guard(&[0, 1], LockWait::No)?;
//! guard.set_governor("performance")?;
//! // ... what has to be fast ...
//! for left in guard.restore() {
//!     eprintln!("{left}");
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::path::PathBuf;

use crate::cpu_set::CpuSet;
use crate::need::Need;
use crate::restore;
use crate::restore::{FileForm, Form, Setting};

mod boost;
mod guard;
mod system;
mod threads;
mod work;

pub use boost::{Activation, Boost, Cost};
pub use guard::{GovernorGuard, Restored};
pub use system::{Cpufreq, CpufreqPolicy, Energy, EnergyZone, IdleState, Lever};
pub use threads::{GovernorThread, Serves};
pub use work::Work;

/// Why a virtual machine has no policy.
const IN_A_VIRTUAL_MACHINE: &str = "in this virtual machine the hypervisor decides; nothing here can be changed";

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

/// Longest value: the kernel's governor names have 15 characters (`CPUFREQ_NAME_LEN`), preferences 19.
const LONGEST_VALUE: usize = 32;

/// The files of a policy (Documentation/admin-guide/pm/cpufreq.rst), in the order of [`Attribute`]. A frequency is
/// digits; a name is lower-case letters, digits, `-` and `_`. Since Linux 5.4 the kernel applies the limits in a worker
/// thread.
static FORM: Form = Form {
    what: "frequency settings",
    magic: "punctual-cpufreq-1",
    journal: "journal",
    lock: "lock",
    folder: "sys/devices/system/cpu/cpufreq",
    prefix: "policy",
    files: &[
        FileForm { name: "scaling_governor", accepts: is_name, is_taken_up_later: false },
        FileForm { name: "scaling_setspeed", accepts: is_frequency, is_taken_up_later: false },
        FileForm { name: "energy_performance_preference", accepts: is_name, is_taken_up_later: false },
        FileForm { name: "scaling_min_freq", accepts: is_frequency, is_taken_up_later: true },
        FileForm { name: "scaling_max_freq", accepts: is_frequency, is_taken_up_later: true },
    ],
    bytes: "a-z0-9_-",
};

fn is_name(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    !value.is_empty() && value.len() <= LONGEST_VALUE && value.bytes().all(plain)
}

fn is_frequency(value: &str) -> bool {
    !value.is_empty() && value.len() <= 10 && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A setting of a policy: one file of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// `scaling_governor`: the governor, which chooses the frequency.
    Governor,
    /// `scaling_setspeed`: the frequency under the governor `userspace`, in kHz.
    SetSpeed,
    /// `energy_performance_preference`: the hardware's preference; a word, or 0 (performance) to 255 (energy).
    Preference,
    /// `scaling_min_freq`: the lowest frequency allowed, in kHz.
    MinFrequency,
    /// `scaling_max_freq`: the highest frequency allowed, in kHz.
    MaxFrequency,
}

impl Attribute {
    /// The name of its file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        self.form().name
    }

    /// Whether a value has the form of this attribute.
    pub(crate) fn accepts(self, value: &str) -> bool {
        (self.form().accepts)(value)
    }

    /// The form of its file.
    const fn form(self) -> &'static FileForm {
        &FORM.files[self as usize]
    }

    /// This attribute of a policy with a value; `None` if the form is invalid.
    fn setting(self, policy: usize, value: &str) -> Option<Setting> {
        Setting::new(&FORM, self.file(), policy, value)
    }

    /// Attributes that change with this one. A change of governor also changes the speed under `userspace` and, with
    /// drivers that choose in hardware, the preference.
    #[must_use]
    const fn takes_along(&self) -> &[Self] {
        match self {
            Self::Governor => &[Self::Governor, Self::SetSpeed, Self::Preference],
            _ => std::slice::from_ref(self),
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.file())
    }
}

/// The accepted forms of a frequency.
pub const FREQUENCY: &str = "a frequency in kHz, MHz or GHz below 1THz (example: 2.2GHz)";

/// A frequency with its unit, in kHz.
#[must_use]
pub fn parse_frequency(text: &str) -> Option<u64> {
    let units = [("GHz", 1e6), ("MHz", 1e3), ("kHz", 1.0)];
    let (digits, times) = units.iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, *times)))?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.trim().parse().ok().filter(|_| plain)?;
    let khz = (number * times).round();
    // No CPU reaches 1 THz.
    (1.0..1e9).contains(&khz).then_some(khz as u64)
}

/// A frequency in the largest unit that gives a whole number, otherwise in GHz with decimals: `2.2GHz`.
#[must_use]
pub fn format_frequency(khz: u64) -> String {
    match khz {
        _ if !khz.is_multiple_of(1000) => format!("{khz}kHz"),
        _ if khz >= 1_000_000 => format!("{}GHz", khz as f64 / 1e6),
        _ => format!("{}MHz", khz / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_need_a_unit_and_come_back_as_typed() {
        for (typed, khz) in [("2.2GHz", 2_200_000), ("800MHz", 800_000), ("1234567kHz", 1_234_567), ("3GHz", 3_000_000)]
        {
            assert_eq!(parse_frequency(typed), Some(khz));
            assert_eq!(format_frequency(khz), typed);
        }
        for bad in ["", "2200", "0GHz", "-1GHz", "1e3MHz", "infGHz", "GHz", "9999999GHz", "max"] {
            assert_eq!(parse_frequency(bad), None, "{bad}");
        }
    }
}
