//! The file in which the library counts: made before the program starts, removed after it.
//!
//! It stands in $XDG_RUNTIME_DIR, /dev/shm or the temporary folder, the first that takes it; only this user may open it. This process
//! locks it (flock(2)). One without a lock was left by a process that was killed, and the next run removes it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use punctual_linux::call_table::{self, Totals};
use rustix::fs::{FlockOperation, OFlags, flock};

/// The beginning of its name.
const NAME: &str = "punctual-observe-";

/// The file, until it is dropped.
pub(super) struct Table {
    file: File,
    path: PathBuf,
}

impl Table {
    /// Makes the file, and removes those that others left.
    pub(super) fn make() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let folders = runtime.into_iter().chain([PathBuf::from("/dev/shm"), std::env::temp_dir()]);
        let mut failed = io::Error::other("no folder for a temporary file");
        for folder in folders {
            match Self::make_in(&folder) {
                Ok(table) => return Ok(table),
                Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
            }
        }
        Err(failed)
    }

    fn make_in(folder: &Path) -> io::Result<Self> {
        remove_left(folder);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let path = folder.join(format!("{NAME}{}-{}", std::process::id(), since.as_nanos()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let table = Self { file, path };
        flock(&table.file, FlockOperation::NonBlockingLockExclusive)?;
        call_table::format(&table.file)?;
        // Between its making and its lock, another run may have taken it for one that was left.
        let there = table.path.symlink_metadata()?;
        let same = there.ino() == table.file.metadata()?.ino();
        if same { Ok(table) } else { Err(io::Error::other("another file took its name")) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn read(&self) -> io::Result<Totals> {
        call_table::read(&self.file)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the files of processes that were killed.
fn remove_left(folder: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NAME.as_bytes()));
    let entries = folder.read_dir().into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(named) {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { continue };
        let own = file.metadata().is_ok_and(|facts| facts.is_file() && facts.uid() == user);
        if own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_with_its_table_and_one_that_was_left_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let there = || folder.path().read_dir().unwrap().count();
        let left = folder.path().join(format!("{NAME}1-1"));
        let other = folder.path().join("other");
        std::fs::write(&left, "").unwrap();
        std::fs::write(&other, "").unwrap();
        let one = Table::make_in(folder.path()).unwrap();
        assert!(!left.exists() && other.exists() && one.path().exists());
        let two = Table::make_in(folder.path()).unwrap();
        assert!(one.path().exists(), "it is in use");
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert!(two.read().unwrap().entries.is_empty());
        drop((one, two));
        assert_eq!(there(), 1);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_an_error() {
        assert!(Table::make_in(Path::new("/proc")).is_err());
        assert!(Table::make_in(Path::new("/nowhere")).is_err());
    }
}
