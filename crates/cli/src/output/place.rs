//! Resolves a name: to a file in a folder, or to an inherited descriptor.
//!
//! The path is walked component by component. A link is followed if it belongs to this user or to root, in whatever folder it stands; a
//! link of anyone else is refused. Every folder and link is held open while it is judged and used, so that exchanging one has no effect.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::refusal::BadUsage;
use crate::terminal::shown;

/// Most links followed, as in the kernel (path_resolution(7)).
const MOST_LINKS: u32 = 40;
/// Flags of a folder's descriptor: only a start for further names.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Why a file is refused that is not the one examined.
pub(super) const EXCHANGED: &str = "it was exchanged for another file just now";

/// The target of a name.
#[derive(Debug)]
pub(super) enum Place {
    /// A descriptor of this process: `/dev/stdout`, `/dev/fd/N`.
    Descriptor(RawFd),
    /// A name in a folder.
    Named(Named),
}

/// A name in a folder.
#[derive(Debug)]
pub(super) struct Named {
    /// The folder.
    pub(super) folder: OwnedFd,
    /// The name in it; never a link's.
    pub(super) name: OsString,
    /// The file with that name, if there is one.
    pub(super) there: Option<Stat>,
    /// Whether users other than this one and root can change the folder.
    pub(super) is_shared: bool,
}

impl Named {
    fn new(folder: OwnedFd, name: OsString, there: Option<Stat>) -> Result<Self, Refusal> {
        let facts = fstat(&folder).map_err(|e| Refusal::errno(e, &name))?;
        let foreign_group = facts.st_mode & 0o020 != 0 && facts.st_gid != getegid().as_raw() && facts.st_gid != 0;
        let is_shared = facts.st_mode & 0o002 != 0 || foreign_group || !is_trusted(facts.st_uid);
        Ok(Self { folder, name, there, is_shared })
    }
}

/// Resolves `path`.
pub(super) fn find(path: &Path) -> Result<Place, Refusal> {
    if path.as_os_str().is_empty() {
        return Err(Refusal::usage("the name is empty; give a file, or - for stdout"));
    }
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(Refusal::usage("the name holds a NUL byte"));
    }
    Walk::new(path)?.end()
}

/// Opens a folder. What is missing of its path is created with mode 0700.
pub(super) fn folder(path: &Path) -> Result<OwnedFd, Refusal> {
    Walk::new(path)?.folder()
}

struct Walk {
    typed: PathBuf,
    folder: OwnedFd,
    to_go: VecDeque<OsString>,
    links: u32,
}

impl Walk {
    fn new(path: &Path) -> Result<Self, Refusal> {
        let start = if path.has_root() { "/" } else { "." };
        let folder = openat(CWD, start, FOLDER, Mode::empty()).map_err(|e| Refusal::errno(e, start))?;
        let mut walk = Self { typed: path.to_owned(), folder, to_go: VecDeque::new(), links: 0 };
        walk.prepend(path);
        Ok(walk)
    }

    /// Components to walk before the rest.
    fn prepend(&mut self, path: &Path) {
        let mut parts: Vec<OsString> = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
            .map(|part| part.as_os_str().to_owned())
            .collect();
        // A name with a trailing slash is a folder.
        if matches!(path.as_os_str().as_bytes(), [.., b'/'] | [.., b'/', b'.']) || parts.is_empty() {
            parts.push(".".into());
        }
        parts.into_iter().rev().for_each(|part| self.to_go.push_front(part));
    }

    /// The end of the path.
    fn end(mut self) -> Result<Place, Refusal> {
        while let Some(name) = self.to_go.pop_front() {
            let last = self.to_go.is_empty();
            if name == "." || name == ".." {
                self.enter(&name)?;
                continue;
            }
            let there = match statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) => there,
                Err(Errno::NOENT) if last => {
                    return match own_descriptor(&self.folder, &name) {
                        Some(number) => Ok(Place::Descriptor(number)),
                        None => Named::new(self.folder, name, None).map(Place::Named),
                    };
                }
                Err(Errno::NOENT) => {
                    let folder = self.typed.parent().unwrap_or(&self.typed);
                    let text = format!("there is no folder {}; create it first", crate::terminal::shown(folder));
                    return Err(Refusal::usage(text));
                }
                Err(errno) => return Err(Refusal::errno(errno, &name)),
            };
            match FileType::from_raw_mode(there.st_mode) {
                FileType::Symlink => {
                    if let (true, Some(number)) = (last, own_descriptor(&self.folder, &name)) {
                        return Ok(Place::Descriptor(number));
                    }
                    self.follow(&name)?;
                }
                FileType::Directory => self.enter(&name)?,
                _ if !last => {
                    let text = format!("{} is not a folder", crate::terminal::shown(&name));
                    return Err(Refusal::usage(text));
                }
                _ => return Named::new(self.folder, name, Some(there)).map(Place::Named),
            }
        }
        Err(Refusal::usage("is a folder; give the name of a file in it"))
    }

    /// The folder that the path names.
    fn folder(mut self) -> Result<OwnedFd, Refusal> {
        while let Some(name) = self.to_go.pop_front() {
            match statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Symlink => {
                    self.follow(&name)?;
                    continue;
                }
                Err(Errno::NOENT) => match mkdirat(&self.folder, &name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(Refusal::errno(errno, &name)),
                },
                // Whatever else it is, it is opened as a folder or not at all.
                _ => {}
            }
            self.enter(&name)?;
        }
        Ok(self.folder)
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), Refusal> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        self.folder = openat(&self.folder, name, flags, Mode::empty()).map_err(|e| Refusal::errno(e, name))?;
        Ok(())
    }

    fn follow(&mut self, name: &OsStr) -> Result<(), Refusal> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Refusal::errno(Errno::LOOP, name));
        }
        // The link that is judged is the one that is read, whatever has its name meanwhile.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(&self.folder, name, flags, Mode::empty()).map_err(|e| Refusal::errno(e, name))?;
        let facts = fstat(&link).map_err(|e| Refusal::errno(e, name))?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::Symlink {
            return Err(Refusal::usage(EXCHANGED));
        }
        if !is_trusted(facts.st_uid) && !self.is_of_the_system(name) {
            let (link, user) = (crate::terminal::shown(name), facts.st_uid);
            let text = format!(
                "{link} is a link of user {user}, and only your own links and root's are followed; name the file itself"
            );
            return Err(Refusal::usage(text));
        }
        let to = readlinkat(&link, c"", Vec::new()).map_err(|e| Refusal::errno(e, name))?;
        let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
        if to.has_root() {
            self.folder = openat(CWD, "/", FOLDER, Mode::empty()).map_err(|e| Refusal::errno(e, "/"))?;
        }
        self.prepend(&to);
        Ok(())
    }

    /// Whether a link of this folder is the system's: in /dev, or /proc/self. In a user namespace that does not map root, their owner is
    /// the overflow user.
    fn is_of_the_system(&self, name: &OsStr) -> bool {
        if is_proc(&self.folder) {
            return name == "self" || name == "thread-self";
        }
        let devices = statat(CWD, "/dev", AtFlags::SYMLINK_NOFOLLOW);
        let same = |a: Stat, b: Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        devices.is_ok_and(|devices| fstat(&self.folder).is_ok_and(|folder| same(devices, folder)))
    }
}

/// Whether this user trusts a link or folder of user `owner`: it is this user's or root's.
fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

fn is_proc(folder: impl AsFd) -> bool {
    let facts = rustix::fs::fstatfs(&folder);
    facts.is_ok_and(|facts| facts.f_type as u64 == u64::from(rustix::fs::PROC_SUPER_MAGIC as u32))
}

/// The number of a descriptor of this process, if `name` in the folder is one. The folder is `/proc/self/fd` by any of its names.
fn own_descriptor(folder: impl AsFd, name: &OsStr) -> Option<RawFd> {
    let number: RawFd = name.to_str()?.parse().ok()?;
    if !is_proc(&folder) {
        return None;
    }
    let at = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
    let at = readlinkat(CWD, at, Vec::new()).ok()?.into_string().ok()?;
    let parts: Vec<&str> = at.split('/').filter(|part| !part.is_empty()).collect();
    let us = rustix::process::getpid().as_raw_nonzero().get().to_string();
    match parts.as_slice() {
        [.., pid, "fd"] if *pid == us => Some(number),
        [.., pid, "task", _, "fd"] if *pid == us => Some(number),
        _ => None,
    }
}

// The target of an output, as typed.

/// The target of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `-`: stdout.
    Stdout,
    /// The name of a file, a device or a pipe.
    File(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => f.write_str(&shown(path)),
        }
    }
}

impl From<OsString> for Target {
    fn from(text: OsString) -> Self {
        if text == OsStr::new("-") { Self::Stdout } else { Self::File(text.into()) }
    }
}

// Why a target cannot be written.

/// The reason why a target cannot be written.
#[derive(Debug)]
pub(super) struct Refusal {
    why: String,
    /// Whether another name would help: the name is at fault, not the machine.
    usage: bool,
}

impl Refusal {
    /// A fault of the name.
    pub(super) fn usage(why: impl Into<String>) -> Self {
        Self { why: why.into(), usage: true }
    }

    /// The kernel's error for `object`.
    pub(super) fn errno(errno: Errno, object: impl AsRef<OsStr>) -> Self {
        let machine = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::FBIG];
        let said = std::io::Error::from(errno);
        Self { why: format!("{} cannot be written: {said}", shown(object)), usage: !machine.contains(&errno) }
    }

    /// The error where no flag names the target.
    pub(super) fn plain(self) -> std::io::Error {
        std::io::Error::other(self.why)
    }

    /// The error for the flag of the target.
    pub(super) fn for_flag(self, flag: &str, target: &crate::output::Target) -> anyhow::Error {
        if self.usage {
            BadUsage::invalid(flag, target, self.why).into()
        } else {
            anyhow::anyhow!("{flag} {target}: {}", self.why)
        }
    }
}
