//! Locks for tests that must not run concurrently.

use std::cell::Cell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, flock};

/// Held by one test on this machine at a time. Its mode lets every user lock it; `flock(2)` needs no right to write.
const MACHINE: &str = "/tmp/punctual-tests.lock";

/// Excludes other tests of this process with this guard until dropped.
pub type AloneHere = MutexGuard<'static, ()>;

/// Excludes other tests of this process that call this: for process-wide state (signals, limits, descriptors).
pub fn alone() -> AloneHere {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Excludes other tests on this machine with this guard until dropped.
#[derive(Debug)]
pub struct AloneOnThisMachine {
    file: File,
    // Dropped after the file is unlocked.
    _here: AloneHere,
}

/// Excludes tests of all processes that call this. It is for tests that occupy a CPU at a real-time priority or need one
/// undisturbed. Includes [`alone`].
///
/// # Panics
/// If the lock cannot be created, or this thread holds it already.
#[must_use]
pub fn alone_on_this_machine() -> AloneOnThisMachine {
    assert!(!HELD.replace(true), "this thread holds the machine's lock already");
    let here = alone();
    let file = open(Path::new(MACHINE)).unwrap_or_else(|error| panic!("{MACHINE}: {error}"));
    flock(&file, FlockOperation::LockExclusive).unwrap_or_else(|error| panic!("locking {MACHINE}: {error}"));
    AloneOnThisMachine { file, _here: here }
}

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

impl Drop for AloneOnThisMachine {
    fn drop(&mut self) {
        // A child that a test forked has a copy of the descriptor. Closing alone would leave the lock with the child.
        let _ = flock(&self.file, FlockOperation::Unlock);
        HELD.set(false);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // In /tmp the kernel may refuse O_CREAT on another user's file (fs.protected_regular).
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        other => return other,
    }
    match File::options().write(true).create_new(true).mode(0o644).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => File::open(path),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_holds_the_lock_at_a_time_and_a_second_descriptor_does_not_get_it() {
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let alone = alone_on_this_machine();
                        assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
                        let again = open(Path::new(MACHINE)).unwrap();
                        assert!(flock(&again, FlockOperation::NonBlockingLockExclusive).is_err());
                        INSIDE.fetch_sub(1, Ordering::SeqCst);
                        drop(alone);
                    }
                });
            }
        });
    }
}
