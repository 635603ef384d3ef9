//! A regular file: replaced whole, or written in place.
//!
//! New contents go to an unnamed file (O_TMPFILE, open(2)), which takes the name when complete. If this process ends before, the kernel
//! removes it. Mode, owner, access list and user attributes of an old file are kept.
//!
//! An old file is written in place if a new one cannot replace it. Reasons: other hard links, an owner that this process cannot set, a
//! folder that is not writable, a mount point. Its room is then reserved first (fallocate(2)).
//!
//! No system call gives an unnamed file a name in use. So it is linked to a temporary name and
//! renamed (rename(2)).
//!
//! A separate process makes both calls, out of reach of the signals that end this one. If it is killed or the machine stops, the temporary
//! name remains. The next run that writes the file recognises the leftover by its name and its free lock, and removes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use punctual_linux::child::uninterrupted;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, XattrFlags, accessat,
    fallocate, fchmod, fchown, flock, fstat, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::place::{EXCHANGED, Named, Refusal};

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
        sweep(&folder, &name);
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
        let dress = |file: &File| match &self.old {
            Some((old, facts)) => dress(file.as_fd(), old.as_fd(), facts),
            None => Ok(()),
        };
        match fresh.take_name(&self.folder, &self.name, self.old.is_some(), bytes, dress) {
            Ok(()) => Ok(()),
            // Without room, writing in place fails too.
            Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::FBIG)) => Err(e.into()),
            Err(_) if self.old.is_some() => {
                sweep(&self.folder, &self.name);
                self.in_place(bytes)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The new file, if it takes its contents piece by piece.
    pub(super) fn growing(&self) -> Option<&File> {
        match &self.fresh {
            Some(Fresh::Unnamed(file)) => Some(file),
            _ => None,
        }
    }

    /// Gives the name to the new file, which has `written` bytes. On failure the old file is unchanged.
    pub(super) fn end_growth(&self, file: &File, written: u64) -> io::Result<()> {
        file.set_len(written)?;
        file.sync_all()?;
        Ok(name(file, &self.folder, &self.name, self.old.is_some())?)
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

/// Appends to a new file, which has `written` bytes.
pub(super) fn append(mut file: &File, bytes: &[u8], written: u64) -> io::Result<()> {
    if size_limit() < written.saturating_add(bytes.len() as u64) {
        return Err(Errno::FBIG.into());
    }
    file.write_all(bytes)
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
            Ok(Fresh::Unnamed(file.into()))
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

/// Temporary names tried: as many processes may write a file at once.
const NAMES: u32 = 16;

/// A new file without its final name.
#[derive(Debug)]
pub(super) enum Fresh {
    /// A file without a name.
    Unnamed(File),
    /// Not created yet: the file system lacks unnamed files.
    Named,
}

impl Fresh {
    /// Writes the contents and gives the file `name`; `taken`: a file has that name. `dress` copies the old file's properties to a file
    /// created here.
    pub(super) fn take_name(
        self,
        folder: &OwnedFd,
        name: &OsStr,
        taken: bool,
        bytes: &[u8],
        dress: impl Fn(&File) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        match self {
            Self::Unnamed(file) => {
                fill(&file, bytes)?;
                self::name(&file, folder, name, taken)
            }
            Self::Named => out_of_reach(|| {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = None;
                let beside = free_name(folder, name, |beside| {
                    file = Some(openat(folder, beside, flags, Mode::from_raw_mode(0o666))?);
                    Ok(())
                })?;
                let file: File = file.ok_or(Errno::IO)?.into();
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                let done = dress(&file).and_then(|()| fill(&file, bytes));
                match done {
                    Ok(()) => take_over(folder, &beside, name),
                    Err(errno) => {
                        let _ = unlinkat(folder, &beside, AtFlags::empty());
                        Err(errno)
                    }
                }
            }),
        }
    }
}

/// Gives an unnamed file its name; `taken`: another file has it.
fn name(file: &File, folder: &OwnedFd, name: &OsStr, taken: bool) -> Result<(), Errno> {
    match if taken { Err(Errno::EXIST) } else { link(file, folder, name) } {
        Err(Errno::EXIST) => {}
        other => return other,
    }
    out_of_reach(|| {
        let beside = free_name(folder, name, |beside| link(file, folder, OsStr::new(beside)))?;
        take_over(folder, &beside, name)
    })
}

/// Writes everything and syncs it.
fn fill(mut file: &File, bytes: &[u8]) -> Result<(), Errno> {
    let length = bytes.len() as u64;
    let filled = file.write_all(bytes).and_then(|()| file.set_len(length)).and_then(|()| file.sync_all());
    filled.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Links an unnamed file to a name.
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match linkat(file, c"", folder, name, AtFlags::EMPTY_PATH) {
        // Refused without privilege before Linux 6.10; the alternative needs /proc.
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
            linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// Creates a file with a free temporary name next to `name`.
fn free_name(folder: &OwnedFd, name: &OsStr, mut make: impl FnMut(&str) -> Result<(), Errno>) -> Result<String, Errno> {
    for number in 0..NAMES {
        let beside = beside(name, number);
        let made = match make(&beside) {
            Err(Errno::EXIST) if remove_leftover(folder, &beside) => make(&beside),
            made => made,
        };
        match made {
            Ok(()) => return Ok(beside),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

fn take_over(folder: &OwnedFd, beside: &str, name: &OsStr) -> Result<(), Errno> {
    renameat(folder, beside, folder, name).inspect_err(|_| {
        let _ = unlinkat(folder, beside, AtFlags::empty());
    })
}

/// Runs `work` in a process that signals to this one do not end. If none can be started, this process runs it.
fn out_of_reach(mut work: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    let status = |outcome: Result<(), Errno>| outcome.map_or_else(|errno| errno.raw_os_error() as u8, |()| 0);
    match uninterrupted(|| status(work())) {
        Ok(Some(0)) => Ok(()),
        Ok(Some(errno)) => Err(Errno::from_raw_os_error(i32::from(errno))),
        Ok(None) => Err(Errno::CHILD),
        Err(_) => work(),
    }
}

/// Removes leftovers of killed runs beside `name`.
pub(super) fn sweep(folder: &OwnedFd, name: &OsStr) {
    for number in 0..NAMES {
        if !remove_leftover(folder, &beside(name, number)) {
            return;
        }
    }
}

/// Removes a file of this user whose lock is free. Returns whether there was one.
fn remove_leftover(folder: &OwnedFd, beside: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, beside, flags, Mode::empty()) else { return false };
    let ours = |file: &OwnedFd| {
        let facts = fstat(file.as_fd()).ok()?;
        let there = statat(folder, beside, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let regular = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
        let own = facts.st_nlink == 1 && (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino);
        Some(regular && own)
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && ours(&file).unwrap_or(false)
        && unlinkat(folder, beside, AtFlags::empty()).is_ok()
}

/// The temporary name number `number` next to `name`. It is the same for every run that writes `name`, so the next one finds leftovers.
fn beside(name: &OsStr, number: u32) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    // FNV-1a (64 bits) suffices: collisions are unlikely, and nobody gains by one.
    let hash = name
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!(".punctual-{hash:016x}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    const NAME: &str = "run.json";

    fn open_folder(path: &Path) -> OwnedFd {
        openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_system_without_unnamed_files_gets_a_temporary_name() {
        let folder = tempfile::tempdir().unwrap();
        let held = open_folder(folder.path());
        for (taken, text) in [(false, "first"), (true, "second"), (true, "3")] {
            Fresh::Named.take_name(&held, OsStr::new(NAME), taken, text.as_bytes(), |_| Ok(())).unwrap();
            assert_eq!(std::fs::read_to_string(folder.path().join(NAME)).unwrap(), text);
        }
        let refused = Fresh::Named.take_name(&held, OsStr::new(NAME), true, b"4", |_| Err(Errno::PERM));
        assert_eq!(refused, Err(Errno::PERM));
        assert_eq!(std::fs::read_to_string(folder.path().join(NAME)).unwrap(), "3");
        assert_eq!(names(folder.path()), [NAME]);
    }

    #[test]
    fn a_leftover_is_removed_and_what_another_run_is_writing_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let held = open_folder(folder.path());
        let leftover = |number| folder.path().join(beside(OsStr::new(NAME), number));
        let in_use = File::create(leftover(0)).unwrap();
        flock(&in_use, FlockOperation::LockExclusive).unwrap();
        File::create(leftover(1)).unwrap();
        Fresh::Named.take_name(&held, OsStr::new(NAME), false, b"new", |_| Ok(())).unwrap();
        assert!(leftover(0).exists() && !leftover(1).exists());
        drop(in_use);
        // A child forked by another test may hold the lock a little longer.
        punctual_testing::until("the leftover is removed", || {
            sweep(&held, OsStr::new(NAME));
            names(folder.path()) == [NAME]
        });
    }
}
