//! The journal: the value before each change, so that any process can restore it.
//!
//! It has one line per setting, such as `policy0 scaling_governor ondemand`, below a line with the format's version and
//! its boot. A line is written before its setting is changed. Lines of any other form are not followed: a journal can
//! only set files of its [`Form`] to plain values.
//!
//! It lies in the folder of [`StateDir`], beside the lock that admits one program at a time.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Error, Form, Left, NotRestored, Setting, files};

/// Longest journal read: five settings of every possible policy.
const LONGEST: u64 = 4 << 20;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    form: &'static Form,
    state: StateDir,
    name: &'static str,
    file: File,
    noted: BTreeSet<(usize, &'static str)>,
}

/// The contents of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Contents {
    /// It is empty.
    Empty,
    /// Previous settings, of this boot.
    Settings(Vec<Setting>),
    /// Settings of another boot, which no longer exist.
    Stale,
    /// Invalid contents; the reason, with the line.
    Refused(String),
}

impl Journal {
    /// Opens the journal of this name and form; creates it if it does not exist.
    pub(crate) fn open(state: &StateDir, name: &'static str, form: &'static Form) -> Result<Self, Error> {
        Ok(Self { form, state: state.clone(), name, file: state.open(name)?, noted: BTreeSet::new() })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.state.path().join(self.name)
    }

    /// Reads its contents.
    pub(crate) fn read(&mut self) -> Result<Contents, Error> {
        let path = self.path();
        let failed = |source| Error::io("reading", path.clone(), source);
        let mut bytes = Vec::new();
        self.file.rewind().map_err(failed)?;
        (&self.file).take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Ok(Contents::Refused("it is too long".into()));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => understand(self.form, &text, &boot()),
            Err(_) => Contents::Refused("it is no text".into()),
        })
    }

    /// Starts a new journal with these settings.
    pub(crate) fn begin(&mut self, settings: &[Setting]) -> Result<(), Error> {
        self.clear()?;
        self.append(&format!("{} {}\n", self.form.magic, boot()))?;
        for setting in settings {
            self.note(setting)?;
        }
        Ok(())
    }

    /// Records the value of a setting, unless it is recorded already: restoring uses the first value.
    pub(crate) fn note(&mut self, setting: &Setting) -> Result<(), Error> {
        if self.noted.insert((setting.number, setting.file())) {
            self.append(&format!("{setting}\n"))?;
        }
        Ok(())
    }

    /// Keeps the failed settings for the next program; empties the journal if there are none.
    pub(crate) fn settle(&mut self, left: &[Left]) -> Result<(), Error> {
        let still: Vec<Setting> = left.iter().map(|left| left.setting.clone()).collect();
        if still.is_empty() { self.clear() } else { self.begin(&still) }
    }

    /// Empties the journal: nothing is left to restore.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.noted.clear();
        self.file.set_len(0).map_err(|source| Error::io("emptying", self.path(), source))
    }

    /// Moves a refused journal aside for inspection, and starts an empty one.
    pub(crate) fn put_aside(&mut self) -> Result<PathBuf, Error> {
        let aside = self.path().with_extension("refused");
        let (folder, refused) = (self.state.folder()?, Path::new(self.name).with_extension("refused"));
        let renamed = rustix::fs::renameat(&folder, self.name, &folder, &refused);
        renamed.map_err(|errno| Error::io("renaming", self.path(), errno.into()))?;
        *self = Self::open(&self.state, self.name, self.form)?;
        Ok(aside)
    }

    /// Appends with one write, so that a reader sees whole lines.
    fn append(&mut self, line: &str) -> Result<(), Error> {
        let written = self.file.seek(SeekFrom::End(0)).and_then(|_| self.file.write_all(line.as_bytes()));
        written.map_err(|source| Error::io("writing", self.path(), source))
    }
}

/// The kernel's identifier of this boot.
pub(crate) fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() { "unknown".into() } else { id.to_owned() }
}

fn understand(form: &'static Form, text: &str, boot: &str) -> Contents {
    let mut lines = text.lines().enumerate();
    let Some((_, first)) = lines.next() else { return Contents::Empty };
    match first.split_once(' ') {
        Some((magic, written)) if magic == form.magic && written == boot => {}
        Some((magic, _)) if magic == form.magic => return Contents::Stale,
        _ => return Contents::Refused(format!("line 1 is not \"{}\" and the number of a boot", form.magic)),
    }
    let mut settings = Vec::new();
    for (index, line) in lines {
        match Setting::parse(form, line) {
            Some(setting) => settings.push(setting),
            None => return Contents::Refused(format!("line {} names no setting of {}", index + 1, form.what)),
        }
    }
    if settings.is_empty() { Contents::Empty } else { Contents::Settings(settings) }
}

/// Passes over settings that depend on each other. Each setting depends on at most two others: the preference on the governor, a lower limit
/// on the upper one. The last pass finds everything restored.
const PASSES: u32 = 4;

/// Writes the settings that differ until none does. Returns those that still differ at the end.
pub(crate) fn put_back(root: &Path, settings: &[Setting]) -> Vec<Left> {
    let mut left = Vec::new();
    for _ in 0..PASSES {
        let mut wrote = false;
        left.clear();
        for setting in settings {
            let path = setting.path(root);
            if files::read(&path).as_deref() == Some(&setting.value) {
                continue;
            }
            let written = files::write(&path, &setting.value);
            wrote |= written.is_ok();
            let now = match written {
                Ok(()) => files::read_back(setting.file, &path, &setting.value),
                Err(_) => files::must_read(&path),
            };
            let why = match (written, now) {
                (Err(error), _) | (Ok(()), Err(error)) => error.to_string(),
                (Ok(()), Ok(now)) if now == setting.value => continue,
                (Ok(()), Ok(now)) => format!("it reads {now}"),
            };
            left.push(Left::new(setting, why));
        }
        if !wrote {
            break;
        }
    }
    left
}

/// Follows a journal of an earlier program. Returns the failures, and remarks for the user.
pub(crate) fn replay(root: &Path, journal: &mut Journal) -> Result<(Vec<Left>, Vec<String>), Error> {
    let mut told = Vec::new();
    let left = match journal.read()? {
        Contents::Empty | Contents::Stale => Vec::new(),
        Contents::Settings(settings) => {
            let left = put_back(root, &settings);
            let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
            told.extend(done.map(|s| format!("{s}: put back for a program that ended without doing so")));
            told.extend(left.iter().map(|left| NotRestored::from(left.clone()).to_string()));
            left
        }
        Contents::Refused(why) => {
            let at = journal.path().to_owned();
            let aside = journal.put_aside()?;
            told.push(format!(
                "the journal {} was not followed: {why}; it is kept as {}",
                at.display(),
                aside.display()
            ));
            Vec::new()
        }
    };
    Ok((left, told))
}

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

/// The journal's folder. For root it is `/run/punctual`, which ends with the boot, as the settings do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The folder of this user: `/run/punctual` for root, otherwise in `XDG_RUNTIME_DIR`, otherwise in the folder for temporary files.
    #[must_use]
    pub fn system() -> Self {
        let user = geteuid();
        let run = Path::new("/run");
        if user.is_root() && rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
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
        let wrong = |why: &str| Err(Error::UnsafePlace { path: self.0.clone(), why: why.into() });
        // What is judged is what is used, whatever has its name meanwhile.
        let folder = match rustix::fs::open(&self.0, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) => return wrong("it is no folder"),
            Err(errno) => return Err(Error::io("opening", &self.0, errno.into())),
        };
        let facts = fstat(&folder).map_err(|errno| Error::io("looking at", &self.0, errno.into()))?;
        if facts.st_uid != geteuid().as_raw() {
            return wrong("it belongs to another user");
        }
        if facts.st_mode & 0o022 != 0 {
            return wrong("others may write to it");
        }
        Ok(folder)
    }

    /// Opens a file of the folder for reading and writing. Refuses a file that another user could have put there.
    pub(crate) fn open(&self, name: &str) -> Result<File, Error> {
        let path = self.0.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(self.folder()?, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(Error::UnsafePlace { path, why: "it is a link".into() }),
            Err(errno) => return Err(Error::io("opening", path, errno.into())),
        };
        let about = file.metadata().map_err(|e| Error::io("looking at", &path, e))?;
        let wrong = |why: &str| Err(Error::UnsafePlace { path: path.clone(), why: why.into() });
        match about {
            _ if !about.is_file() => wrong("it is no ordinary file"),
            _ if about.uid() != geteuid().as_raw() => wrong("it belongs to another user"),
            _ if about.mode() & 0o022 != 0 => wrong("others may write to it"),
            _ if about.nlink() != 1 => wrong("it has more than one name"),
            _ => Ok(file),
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
        let told = (|| -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        })();
        told.map_err(|source| Error::io("writing", self.0.join(form.lock), source))?;
        Ok(file)
    }
}

/// The lock's holder, by name and process ID.
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
