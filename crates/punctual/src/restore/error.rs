//! Errors of the machine's setting files and of the journal's folder.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a setting of the machine could not be read or changed. [`Error::remedy`] names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, written or created.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// `reading`, `writing performance to`, ...
        doing: String,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A value of invalid form.
    #[error("invalid {file}: {value:?} has not the form of a value")]
    BadValue {
        /// The file.
        file: &'static str,
        /// The value.
        value: String,
    },
    /// Another program holds these settings.
    #[error("{holder} is changing {what} now")]
    Busy {
        /// The holder, if known.
        holder: String,
        /// The settings.
        what: &'static str,
    },
    /// The journal's folder cannot be trusted.
    #[error("{} cannot hold the journal: {why}", path.display())]
    UnsafePlace {
        /// The folder or file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), path: path.into(), source }
    }

    /// The kernel's error number, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::BadValue { .. } => {
                "a name has lower-case letters, digits, - and _; a frequency is a number in kHz".into()
            }
            Self::Busy { .. } => "wait until it has finished, or end it: it puts back what it changed".into(),
            Self::UnsafePlace { path, .. } => format!("remove {} and try again", path.display()),
            Self::Io { source, .. } => remedy_of(source).into(),
        }
    }
}

fn remedy_of(source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => "run it as root (sudo), or give this user write access to the file",
        Some(Errno::ROFS) => {
            "/sys is mounted read-only, as in a container: run it on the host, or with /sys and /proc/irq writable"
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            "the CPU may have gone offline: see /sys/devices/system/cpu/online"
        }
        Some(Errno::BUSY) => "the driver refuses this under the present governor: choose another governor first",
        Some(Errno::INVAL) => "the driver does not take this value: `punctual governor` shows what it offers",
        _ => "see what the kernel says in dmesg",
    }
}
