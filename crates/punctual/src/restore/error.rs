//! Errors of the machine's setting files and of the journal's folder.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::need::Need;

/// Why a setting of the machine could not be read or changed. [`Error::needs`] says what it lacks.
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

    /// What would let it succeed.
    #[must_use]
    pub fn needs(&self) -> Need {
        match self {
            Self::BadValue { .. } => Need::SettingForm,
            Self::Busy { .. } => Need::HolderEnded,
            Self::UnsafePlace { path, .. } => Need::Removed(path.clone()),
            Self::Io { source, .. } => needs_of(source),
        }
    }
}

fn needs_of(source: &io::Error) -> Need {
    match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) => Need::WriteAccess,
        Some(Errno::ROFS) => Need::WritableMount,
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Need::CpuStillOnline,
        Some(Errno::BUSY) => Need::OtherGovernor,
        Some(Errno::INVAL) => Need::OfferedValue,
        _ => Need::KernelLog,
    }
}
