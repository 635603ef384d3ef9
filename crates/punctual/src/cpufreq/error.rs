//! What went wrong with a frequency setting, and what to do about it.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a frequency setting could not be read or changed. [`Error::remedy`] says what would help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel shows no cpufreq policy.
    #[error("{} holds no frequency policy: {why}", at.display())]
    NotExposed {
        /// Where policies would be.
        at: PathBuf,
        /// Why there are none, as far as the machine tells.
        why: String,
    },
    /// No policy has this CPU.
    #[error("no frequency policy has CPU {cpu}")]
    NoSuchCpu {
        /// The CPU asked for.
        cpu: usize,
    },
    /// A file could not be read, written or made.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// `reading`, `writing performance to`, ...
        doing: String,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The policy offers no such governor.
    #[error("policy{policy} offers no governor {asked:?}, only {}", offered.join(", "))]
    UnknownGovernor {
        /// The policy.
        policy: usize,
        /// What was asked.
        asked: String,
        /// What it offers.
        offered: Vec<String>,
    },
    /// The policy has no such attribute.
    #[error("policy{policy} ({driver}) has no {file}")]
    NoAttribute {
        /// The policy.
        policy: usize,
        /// Its driver.
        driver: String,
        /// The file that is missing.
        file: &'static str,
    },
    /// A speed can be set only under the governor `userspace`.
    #[error("policy{policy} is under the governor {governor}: a speed can be set under userspace only")]
    NotUserspace {
        /// The policy.
        policy: usize,
        /// Its governor.
        governor: String,
    },
    /// A frequency outside what the hardware does.
    #[error("{asked_khz} kHz is outside policy{policy}'s {min_khz} to {max_khz} kHz")]
    OutOfRange {
        /// The policy.
        policy: usize,
        /// What was asked.
        asked_khz: u64,
        /// The hardware's lowest.
        min_khz: u64,
        /// The hardware's highest.
        max_khz: u64,
    },
    /// A value that has not the form of one.
    #[error("{value:?} is no value for {file}")]
    BadValue {
        /// The file.
        file: &'static str,
        /// The value.
        value: String,
    },
    /// The kernel took a value and shows another.
    #[error("policy{policy}: {file} was set to {set} and reads {found}")]
    NotKept {
        /// The policy.
        policy: usize,
        /// The file.
        file: &'static str,
        /// What was written.
        set: String,
        /// What is there.
        found: String,
    },
    /// Another program holds the frequency settings.
    #[error("{holder} is changing frequency settings now")]
    Busy {
        /// Who, as far as it is known.
        holder: String,
    },
    /// The place for the journal cannot be trusted.
    #[error("{} cannot hold the journal: {why}", path.display())]
    UnsafePlace {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing this machine has can raise its speed.
    #[error("nothing here can raise the speed of CPU {cpu}: {why}")]
    NoLever {
        /// The CPU.
        cpu: usize,
        /// What was looked for.
        why: String,
    },
}

impl Error {
    pub(super) fn io(doing: impl Into<String>, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), path: path.into(), source }
    }

    /// The kernel's error number, where there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// What would make it work.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NotExposed { why, .. } if why == super::system::IN_A_VIRTUAL_MACHINE => "set it on the host".into(),
            Self::NotExposed { .. } => {
                "enable the CPU's performance states in the firmware and load its cpufreq driver".into()
            }
            Self::NoSuchCpu { .. } => "name a CPU that is online: /sys/devices/system/cpu/online".into(),
            Self::UnknownGovernor { asked, .. } => match asked.as_str() {
                "powersave" | "ondemand" | "conservative" | "userspace" | "performance" | "schedutil" => {
                    format!(
                        "modprobe cpufreq_{asked}; drivers that choose in hardware offer performance and powersave alone"
                    )
                }
                _ => "take one of those".into(),
            },
            Self::NoAttribute { .. } => "use what this driver has: `punctual governor` shows it".into(),
            Self::NotUserspace { .. } => "set the governor userspace first".into(),
            Self::OutOfRange { .. } => "ask for a frequency in that range".into(),
            Self::BadValue { .. } => {
                "a name has lower-case letters, digits, - and _; a frequency is a number in kHz".into()
            }
            Self::NotKept { .. } => {
                "see what else sets it: thermald, power-profiles-daemon, tuned, a limit of the firmware".into()
            }
            Self::Busy { .. } => "wait until it has finished, or end it: it puts back what it changed".into(),
            Self::UnsafePlace { path, .. } => format!("remove {} and try again", path.display()),
            Self::NoLever { .. } => "see `punctual governor` for what this machine has".into(),
            Self::Io { source, .. } => remedy_of(source),
        }
    }
}

fn remedy_of(source: &io::Error) -> String {
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => "run it as root (sudo), or give this user write access to the file".into(),
        Some(Errno::ROFS) => {
            "/sys is mounted read-only, as in a container: run it on the host, or with /sys writable".into()
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            "the CPU may have gone offline: see /sys/devices/system/cpu/online".into()
        }
        Some(Errno::BUSY) => "the driver refuses this under the present governor: choose another governor first".into(),
        Some(Errno::INVAL) => "the driver does not take this value: `punctual governor` shows what it offers".into(),
        _ => "see what the kernel says in dmesg".into(),
    }
}
