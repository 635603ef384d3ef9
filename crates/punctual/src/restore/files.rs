//! The folder of journals, with the locks in it that admit one program at a time; and the small files of /sys and /proc, read and written.

use std::fs::{DirBuilder, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, FileType, FlockOperation, Mode, OFlags, access, flock, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Error, FileForm, Form};

/// Polling interval of a program that waits for the lock.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Behaviour while another program holds the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// Refuse at once.
    No,
    /// Wait up to this long, then refuse.
    AtMost(Duration),
}

/// The folder of journals. For root it is `/run/punctual`, which ends with the boot, as the settings do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The folder of this user: `/run/punctual` for root, otherwise in `XDG_RUNTIME_DIR`, otherwise in the folder for temporary files.
    #[must_use]
    pub fn system() -> Self {
        let user = geteuid();
        let run = Path::new("/run");
        if user.is_root() && access(run, Access::WRITE_OK).is_ok() {
            return Self(run.join("punctual"));
        }
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir())
        {
            Some(path) if !user.is_root() => Self(path.join("punctual")),
            _ => Self(std::env::temp_dir().join(format!("punctual-{}", user.as_raw()))),
        }
    }

    /// A given folder. It is created on demand and must belong to this user alone.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens the folder, and creates it if it is missing. Refuses one that another user could write to.
    pub(crate) fn folder(&self) -> Result<OwnedFd, Error> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::io("making the journal's folder", &self.0, source)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The opened folder is judged and used: another one may have its name by now.
        match rustix::fs::open(&self.0, flags, Mode::empty()) {
            Ok(folder) => trusted(folder, &self.0, false),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(unsafe_place(&self.0, "it is no folder")),
            Err(errno) => Err(Error::io("opening", &self.0, errno.into())),
        }
    }

    /// Opens a file of the folder for reading and writing. Refuses a file that another user could have put there.
    pub(crate) fn open(&self, name: &str) -> Result<File, Error> {
        let path = self.0.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.folder()?, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => trusted(file, &path, true).map(File::from),
            Err(Errno::LOOP) => Err(unsafe_place(&path, "it is a link")),
            Err(errno) => Err(Error::io("opening", path, errno.into())),
        }
    }

    /// Takes the lock of these settings. It is held while this file, or a copy of it in another process, is open.
    pub(crate) fn lock(&self, form: &Form, wait: LockWait) -> Result<File, Error> {
        let mut file = self.open(form.lock)?;
        let until = match wait {
            LockWait::No => None,
            LockWait::AtMost(time) => Some(Instant::now() + time),
        };
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if until.is_some_and(|at| Instant::now() < at) => {
                    std::thread::sleep(BETWEEN_LOOKS)
                }
                Err(Errno::WOULDBLOCK) => return Err(Error::Busy { holder: holder(&mut file), what: form.what }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("locking", self.0.join(form.lock), errno.into())),
            }
        }
        // Names the holder for refused programs. The lock itself does not depend on this text.
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        let written = emptied.and_then(|()| write!(file, "{}", std::process::id()));
        written.map_err(|source| Error::io("writing", self.0.join(form.lock), source))?;
        Ok(file)
    }
}

/// Refuses an open folder or file that another user could have put there, or could change.
fn trusted(opened: OwnedFd, path: &Path, is_file: bool) -> Result<OwnedFd, Error> {
    let facts = fstat(&opened).map_err(|errno| Error::io("looking at", path, errno.into()))?;
    let faults = [
        (is_file && !FileType::from_raw_mode(facts.st_mode).is_file(), "it is no ordinary file"),
        (facts.st_uid != geteuid().as_raw(), "it belongs to another user"),
        (facts.st_mode & 0o022 != 0, "others may write to it"),
        (is_file && facts.st_nlink != 1, "it has more than one name"),
    ];
    match faults.into_iter().find(|(has_it, _)| *has_it) {
        Some((_, why)) => Err(unsafe_place(path, why)),
        None => Ok(opened),
    }
}

fn unsafe_place(path: &Path, why: &str) -> Error {
    Error::UnsafePlace { path: path.to_owned(), why: why.into() }
}

/// The lock's holder, by name and process ID. The keeper of a program that was killed holds the lock until it has restored the settings.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(16).read_to_string(&mut text));
    match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) if pid == std::process::id() => "this process itself".into(),
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("{} (process {pid})", name.trim()),
            Err(_) => format!("the keeper of process {pid}, which has ended,"),
        },
        None => "another program".into(),
    }
}

/// The contents of a file without the line end; `None` if the file does not exist, cannot be read or reports no value.
pub(crate) fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    let absent = text.is_empty() || text.starts_with('<');
    (!absent).then(|| text.to_owned())
}

/// The number in a file.
pub(crate) fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The words of a file, separated by blanks.
pub(crate) fn words(path: &Path) -> Vec<String> {
    read(path).map(|text| text.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}

/// The contents of a file, or the error of reading it.
pub(crate) fn must_read(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::io("reading", path, source))?;
    Ok(text.trim().to_owned())
}

/// Writes `value` into an existing file with one call. Follows no links and creates nothing.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    let failed = |source| Error::io(format!("writing {value} to"), path, source);
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let mut file: File =
        std::fs::OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path).map_err(failed)?;
    file.write_all(format!("{value}\n").as_bytes()).map_err(failed)
}

/// Whether this user may write into the file.
pub(crate) fn writable(path: &Path) -> Result<(), Error> {
    access(path, Access::WRITE_OK).map_err(|errno| Error::io("writing to", path, errno.into()))
}

/// Longest delay until a written value shows. The kernel applies a frequency limit in a worker thread (`schedule_work`
/// in drivers/cpufreq/cpufreq.c), which a busy machine delays.
const SHOWS_WITHIN: Duration = Duration::from_millis(200);
/// Polling interval. The thread sleeps in between, so that the worker can run.
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// The contents after `value` was written: that value, or the contents at the timeout.
pub(crate) fn read_back(file: &FileForm, path: &Path, value: &str) -> Result<String, Error> {
    let give_up = Instant::now() + SHOWS_WITHIN;
    loop {
        let now = must_read(path)?;
        if now == value || !file.is_taken_up_later || Instant::now() >= give_up {
            return Ok(now);
        }
        std::thread::sleep(BETWEEN_READINGS);
    }
}
