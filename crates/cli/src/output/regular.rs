//! A regular file: replaced whole, or written in place.
//!
//! New contents go to an unnamed file (O_TMPFILE, open(2)), which takes the name when complete. If this process ends before, the kernel
//! removes it. Mode, owner, access list and user attributes of an old file are kept.
//!
//! An old file is written in place if a new one cannot replace it. Reasons: other hard links, an owner that this process cannot set, a
//! folder that is not writable, a mount point. Its room is then reserved first (fallocate(2)).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    Access, AtFlags, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, XattrFlags, accessat,
    fallocate, fchmod, fchown, flock, fstat, openat, statat,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::place::{EXCHANGED, Named, Refusal};
use super::taking::{self, Fresh};

/// Room reserved before the measurement, so that a full disk is reported at once: several runs of the usual size.
const RESERVED: u64 = 64 << 10;

/// A regular file to write, or a name for one.
#[derive(Debug)]
pub(super) struct Regular {
    folder: OwnedFd,
    name: OsString,
    /// The old file of that name, open for writing.
    old: Option<(File, Stat)>,
    /// The new file for the name; `None`: the old file is written in place.
    fresh: Option<Fresh>,
}

impl Regular {
    /// Opens what is needed for writing. Changes nothing visible.
    pub(super) fn open(named: Named) -> Result<Self, Refusal> {
        let Named { folder, name, there, is_shared } = named;
        taking::sweep(&folder, &name);
        if there.is_none() {
            if fstat(&folder).is_ok_and(|facts| facts.st_nlink == 0) {
                return Err(Refusal::usage("its folder was removed"));
            }
            let fresh = fresh(&folder, None::<(&OwnedFd, &Stat)>).map_err(|e| Refusal::errno(e, "its folder"))?;
            return Ok(Self { folder, name, old: None, fresh: Some(fresh) });
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let old = openat(&folder, &name, flags, Mode::empty()).map_err(|e| Refusal::errno(e, "it"))?;
        let facts = fstat(&old).map_err(|e| Refusal::errno(e, "it"))?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(Refusal::usage(EXCHANGED));
        }
        if is_shared && facts.st_nlink > 1 {
            return Err(Refusal::usage(
                "it has other hard links, in a folder that others may write; name another file",
            ));
        }
        let fresh = match facts.st_nlink {
            1 => fresh(&folder, Some((old.as_fd(), &facts))).ok(),
            _ => None,
        };
        Ok(Self { folder, name, old: Some((old.into(), facts)), fresh })
    }

    /// Writes everything. On failure the old file is unchanged.
    pub(super) fn write(mut self, bytes: &[u8]) -> io::Result<()> {
        if size_limit() < bytes.len() as u64 {
            return Err(Errno::FBIG.into());
        }
        let Some(fresh) = self.fresh.take() else { return self.in_place(bytes) };
        let dress = |file: &OwnedFd| match &self.old {
            Some((old, facts)) => dress(file.as_fd(), old.as_fd(), facts),
            None => Ok(()),
        };
        match fresh.take_name(&self.folder, &self.name, self.old.is_some(), bytes, dress) {
            Ok(()) => Ok(()),
            // Without room, writing in place fails too.
            Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::FBIG)) => Err(e.into()),
            Err(_) if self.old.is_some() => {
                taking::sweep(&self.folder, &self.name);
                self.in_place(bytes)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Whether it takes its contents piece by piece.
    pub(super) fn can_grow(&self) -> bool {
        matches!(self.fresh, Some(Fresh::Unnamed(_)))
    }

    /// Appends to the new file, which has `written` bytes.
    pub(super) fn grow(&self, bytes: &[u8], written: u64) -> io::Result<()> {
        if size_limit() < written.saturating_add(bytes.len() as u64) {
            return Err(Errno::FBIG.into());
        }
        let Some(Fresh::Unnamed(file)) = &self.fresh else { return Err(Errno::BADF.into()) };
        Ok(taking::append(file, bytes)?)
    }

    /// Gives the name to the new file, which has `written` bytes. On failure the old file is unchanged.
    pub(super) fn end_growth(self, written: u64) -> io::Result<()> {
        let Some(Fresh::Unnamed(file)) = self.fresh else { return Err(Errno::BADF.into()) };
        taking::complete(&file, written)?;
        Ok(taking::name(&file, &self.folder, &self.name, self.old.is_some())?)
    }

    fn in_place(&self, bytes: &[u8]) -> io::Result<()> {
        let Some((old, _)) = &self.old else { return Err(Errno::NOENT.into()) };
        let len = bytes.len() as u64;
        match fallocate(old, FallocateFlags::KEEP_SIZE, 0, len.max(1)) {
            // Some file systems cannot reserve; the write then reports a full disk.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        old.write_all_at(bytes, 0)?;
        old.set_len(len)?;
        old.sync_all()?;
        let there = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let written = fstat(old)?;
        if (there.st_dev, there.st_ino) == (written.st_dev, written.st_ino) {
            Ok(())
        } else {
            Err(io::Error::other("it was replaced by another file meanwhile"))
        }
    }
}

/// Largest file that this process may write; beyond it SIGXFSZ ends the process.
fn size_limit() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// The new file for the name, with the properties of `old`, if there is one.
fn fresh(folder: &OwnedFd, old: Option<(impl AsFd, &Stat)>) -> Result<Fresh, Errno> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    match openat(folder, ".", flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => {
            if let Some((old, facts)) = old {
                dress(file.as_fd(), old, facts)?;
            }
            let room = RESERVED.min(size_limit()).max(1);
            if let Err(errno @ (Errno::NOSPC | Errno::DQUOT)) = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, room) {
                return Err(errno);
            }
            // Held while this process lives: a file with a free lock is a leftover.
            let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
            Ok(Fresh::Unnamed(file))
        }
        // The file system or the kernel lacks unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            accessat(folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
            Ok(Fresh::Named)
        }
        Err(errno) => Err(errno),
    }
}

/// Copies mode, owner, access list and user attributes of `old` to `file`.
fn dress(file: impl AsFd, old: impl AsFd, facts: &Stat) -> Result<(), Errno> {
    let own = fstat(&file)?;
    if (own.st_uid, own.st_gid) != (facts.st_uid, facts.st_gid) {
        fchown(&file, Some(Uid::from_raw(facts.st_uid)), Some(Gid::from_raw(facts.st_gid)))?;
    }
    fchmod(&file, Mode::from_raw_mode(facts.st_mode & 0o7777))?;
    // No attributes, or too many: keep none.
    let mut names = vec![0; 1 << 16];
    let Ok(length) = rustix::fs::flistxattr(&old, names.as_mut_slice()) else { return Ok(()) };
    for name in names[..length].split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && name != b"system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::fgetxattr(&old, name, value.as_mut_slice())?;
        rustix::fs::fsetxattr(&file, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

/// Whether two regular files are the same: writes to one device do not overwrite each other.
pub(super) fn is_one(a: &Stat, b: &Stat) -> bool {
    let kind = FileType::from_raw_mode(a.st_mode);
    matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket)
        && (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}
