//! Resolves a name: to a file in a folder, or to an inherited descriptor.
//!
//! The path is walked component by component, and each link is checked. In a folder that others may write, only links to regular files are
//! followed. They must belong to this user, to the folder's owner or to root. Every folder is held open, so that exchanging one has no
//! effect.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::refusal::Refusal;

/// Most links followed, as in the kernel (path_resolution(7)).
const MOST_LINKS: u32 = 40;
/// Flags of a folder's descriptor: only a start for further names.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

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

struct Walk {
    typed: PathBuf,
    folder: OwnedFd,
    to_go: VecDeque<OsString>,
    links: u32,
    /// Whether a link was followed that others could have created.
    through_others: bool,
}

impl Walk {
    fn new(path: &Path) -> Result<Self, Refusal> {
        let start = if path.has_root() { "/" } else { "." };
        let folder = openat(CWD, start, FOLDER, Mode::empty()).map_err(|e| Refusal::errno(e, start))?;
        let mut walk = Self { typed: path.to_owned(), folder, to_go: VecDeque::new(), links: 0, through_others: false };
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
                    return Ok(match own_descriptor(&self.folder, &name) {
                        Some(number) => Place::Descriptor(number),
                        None => Place::Named(Named { folder: self.folder, name, there: None }),
                    });
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
                    self.follow(&name, &there)?;
                }
                FileType::Directory => self.enter(&name)?,
                _ if !last => {
                    let text = format!("{} is not a folder", crate::terminal::shown(&name));
                    return Err(Refusal::usage(text));
                }
                kind if self.through_others && kind != FileType::RegularFile => {
                    let text = "a link in a folder that others may write leads to a device or a pipe; name that itself";
                    return Err(Refusal::usage(text));
                }
                _ => return Ok(Place::Named(Named { folder: self.folder, name, there: Some(there) })),
            }
        }
        Err(Refusal::usage("is a folder; give the name of a file in it"))
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), Refusal> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        self.folder = openat(&self.folder, name, flags, Mode::empty()).map_err(|e| Refusal::errno(e, name))?;
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, link: &Stat) -> Result<(), Refusal> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Refusal::errno(Errno::LOOP, name));
        }
        let folder = fstat(&self.folder).map_err(|e| Refusal::errno(e, name))?;
        let (us, root) = (geteuid().as_raw(), 0);
        let foreign_group = folder.st_mode & 0o020 != 0 && folder.st_gid != getegid().as_raw() && folder.st_gid != 0;
        let shared = folder.st_mode & 0o002 != 0 || foreign_group;
        if shared && ![us, root, folder.st_uid].contains(&link.st_uid) {
            let text = format!(
                "{} is a link of user {} in a folder that others may write; name the file itself",
                crate::terminal::shown(name),
                link.st_uid
            );
            return Err(Refusal::usage(text));
        }
        self.through_others |= shared || ![us, root].contains(&folder.st_uid);
        let to = readlinkat(&self.folder, name, Vec::new()).map_err(|e| Refusal::errno(e, name))?;
        let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
        if to.has_root() {
            self.folder = openat(CWD, "/", FOLDER, Mode::empty()).map_err(|e| Refusal::errno(e, "/"))?;
        }
        self.prepend(&to);
        Ok(())
    }
}

/// The number of a descriptor of this process, if `name` in the folder is one. The folder is `/proc/self/fd` by any of its names.
fn own_descriptor(folder: impl AsFd, name: &OsStr) -> Option<RawFd> {
    let number: RawFd = name.to_str()?.parse().ok()?;
    let facts = rustix::fs::fstatfs(&folder).ok()?;
    if facts.f_type as u64 != u64::from(rustix::fs::PROC_SUPER_MAGIC as u32) {
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
