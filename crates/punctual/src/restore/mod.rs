//! Restores settings of the machine that outlive a process.
//!
//! A `Form` names the files of one kind of setting; [`StateDir`] is the journal's folder. A guard records the current
//! value in the journal before each write and restores it at its end. If the process dies, even by SIGKILL, the keeper
//! follows the journal. If both die, the next guard does.
//!
//! It refuses a journal folder that another user could write to, and a journal with an invalid line. It also refuses a second
//! simultaneous program.
//!
//! It writes nothing but the files of a `Form` into /sys or /proc, and a journal cannot name other files.
//!
//! Layers: files < journal, keeper.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustix::io::Errno;

use crate::need::Need;

pub(crate) mod files;
pub(crate) mod journal;
pub(crate) mod keeper;

pub use files::{LockWait, StateDir};
pub(crate) use journal::{put_back, replay};

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

/// The highest number of an item. Policies are numbered by CPU, and the largest `CONFIG_NR_CPUS` is 8192.
pub(crate) const HIGHEST_ITEM: usize = 8191;

/// A kind of setting: one folder per item, with the same files in each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Name of these settings in an error.
    pub(crate) what: &'static str,
    /// First word of a journal; readers refuse any other.
    pub(crate) magic: &'static str,
    /// Name of the journal in the state folder.
    pub(crate) journal: &'static str,
    /// Name of the lock in the state folder.
    pub(crate) lock: &'static str,
    /// The folder of the items, below the root.
    pub(crate) folder: &'static str,
    /// Prefix of an item's folder: `policy` of `policy0`.
    pub(crate) prefix: &'static str,
    /// The files of an item.
    pub(crate) files: &'static [FileForm],
    /// The bytes of values, as a shell pattern set. The keeper accepts no other.
    pub(crate) bytes: &'static str,
}

impl Form {
    /// The numbers of the items below `root`, ascending.
    pub(crate) fn numbers(&self, root: &Path) -> Vec<usize> {
        let entries = std::fs::read_dir(root.join(self.folder)).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix(self.prefix)?.parse().ok().filter(|number| *number <= HIGHEST_ITEM);
        let mut numbers: Vec<usize> = entries.filter_map(|e| number(&e.file_name().to_string_lossy())).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The folder of an item below `root`.
    pub(crate) fn item(&self, root: &Path, number: usize) -> PathBuf {
        root.join(self.folder).join(format!("{}{number}", self.prefix))
    }
}

/// One file of an item.
#[derive(Debug)]
pub(crate) struct FileForm {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether a value has the form of this file.
    pub(crate) accepts: fn(&str) -> bool,
    /// Whether the kernel applies a write later, in a worker thread, and shows the old value until then.
    pub(crate) is_taken_up_later: bool,
}

impl PartialEq for FileForm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for FileForm {}

/// A file of an item, with a value for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub(crate) form: &'static Form,
    pub(crate) file_form: &'static FileForm,
    pub(crate) number: usize,
    pub(crate) value: String,
}

impl Setting {
    /// A value for a file of the form; `None` if the value is invalid for the file.
    pub(crate) fn new(form: &'static Form, file: &str, number: usize, value: &str) -> Option<Self> {
        let file_form = form.files.iter().find(|known| known.name == file)?;
        (file_form.accepts)(value).then(|| Self { form, file_form, number, value: value.to_owned() })
    }

    /// Number of the item: 0 of `policy0`.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Name of the file.
    #[must_use]
    pub const fn file(&self) -> &'static str {
        self.file_form.name
    }

    /// The value, as written in the file.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Its path on a machine whose files are below `root`.
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        self.form.item(root, self.number).join(self.file_form.name)
    }

    /// Parses exactly the format of [`Display`](fmt::Display): a number, a known file, a plain value.
    pub(crate) fn parse(form: &'static Form, line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (item, file, value) = (words.next()?, words.next()?, words.next()?);
        let number = item.strip_prefix(form.prefix)?;
        let plain = !number.is_empty() && number.len() <= 4 && number.bytes().all(|b| b.is_ascii_digit());
        let number = number.parse().ok().filter(|n| plain && *n <= HIGHEST_ITEM)?;
        let setting = Self::new(form, file, number, value)?;
        words.next().is_none().then_some(setting)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {} {}", self.form.prefix, self.number, self.file_form.name, self.value)
    }
}

/// A setting that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} could not be put back: it was {was}; {why}")]
pub struct NotRestored {
    /// The name of a condition, or the file of a setting (`policy0 scaling_governor`).
    pub what: String,
    /// The previous value.
    pub was: String,
    /// The kernel's message, and the current value.
    pub why: String,
    /// What would restore it.
    pub needs: Need,
}

/// A setting that could not be restored, to keep in a journal.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) setting: Setting,
    why: String,
}

impl From<Left> for NotRestored {
    fn from(left: Left) -> Self {
        let Setting { form, file_form, number, value } = left.setting;
        let (item, file) = (format!("{}{number}", form.prefix), file_form.name);
        let needs =
            Need::ValueWritten { file: PathBuf::from(format!("/{}/{item}/{file}", form.folder)), value: value.clone() };
        Self { what: format!("{item} {file}"), was: value, why: left.why, needs }
    }
}
