//! Tests that must not run at the same time.

use std::cell::Cell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by one test on this machine at a time. Its mode lets every user lock it; `flock(2)` needs no right to write.
const MACHINE: &str = "/tmp/punctual-tests.lock";

/// No other test of this process that asks for this runs until it is dropped.
pub type AloneHere = MutexGuard<'static, ()>;

/// Keeps the tests of this process that ask for this from each other: for what belongs to the process (signals, limits, descriptors).
pub fn alone() -> AloneHere {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No other test on this machine that asks for this runs until it is dropped.
#[derive(Debug)]
pub struct AloneOnThisMachine {
    file: File,
    // Dropped after the file is unlocked.
    _here: AloneHere,
}

/// Keeps tests of all processes from each other: for tests that take a CPU at a real-time priority or need one for themselves.
/// It holds [`alone`] too.
///
/// # Panics
/// When the lock cannot be made, or this thread has it already.
#[must_use]
pub fn alone_on_this_machine() -> AloneOnThisMachine {
    assert!(!HELD.replace(true), "this thread is alone on this machine already");
    let here = alone();
    let file = open(Path::new(MACHINE)).unwrap_or_else(|error| panic!("{MACHINE}: {error}"));
    file.lock().unwrap_or_else(|error| panic!("locking {MACHINE}: {error}"));
    AloneOnThisMachine { file, _here: here }
}

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

impl Drop for AloneOnThisMachine {
    fn drop(&mut self) {
        // A child that a test forked has a copy of the descriptor: closing alone would leave the lock with the child.
        drop(self.file.unlock());
        HELD.set(false);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // In a folder like /tmp the kernel may refuse to create over the file of another user (fs.protected_regular).
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
                        assert!(open(Path::new(MACHINE)).unwrap().try_lock().is_err());
                        INSIDE.fetch_sub(1, Ordering::SeqCst);
                        drop(alone);
                    }
                });
            }
        });
    }
}
