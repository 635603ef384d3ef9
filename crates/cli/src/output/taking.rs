//! Replaces a named file by a complete one. No system call gives an unnamed file a name in use. So it is linked to a temporary name and
//! renamed (rename(2)).
//!
//! A separate process makes both calls, out of reach of the signals that end this one. If it is killed or the machine stops, the temporary
//! name remains. The next run that writes the file recognises the leftover by its name and its free lock, and removes it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use punctual_linux::child::uninterrupted;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Temporary names tried: as many processes may write a file at once.
const NAMES: u32 = 16;

/// A new file without its final name.
#[derive(Debug)]
pub(super) enum Fresh {
    /// A file without a name.
    Unnamed(OwnedFd),
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
        dress: impl Fn(&OwnedFd) -> Result<(), Errno>,
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
                let file = file.ok_or(Errno::IO)?;
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
pub(super) fn name(file: &OwnedFd, folder: &OwnedFd, name: &OsStr, taken: bool) -> Result<(), Errno> {
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
fn fill(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    append(file, bytes)?;
    complete(file, bytes.len() as u64)
}

/// Writes everything.
pub(super) fn append(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Truncates the file to this length and syncs it.
pub(super) fn complete(file: &OwnedFd, length: u64) -> Result<(), Errno> {
    rustix::fs::ftruncate(file, length)?;
    rustix::fs::fsync(file)
}

/// Links an unnamed file to a name.
fn link(file: &OwnedFd, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
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
        match make(&beside) {
            Ok(()) => return Ok(beside),
            Err(Errno::EXIST) if remove_leftover(folder, &beside) => match make(&beside) {
                Ok(()) => return Ok(beside),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            },
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
