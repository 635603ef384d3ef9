//! Locks of files, which another process has.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use punctual_linux::child::Child;
use punctual_record::Spent;
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::{assert_whole, ns, spent, watched};

const MS: u64 = 1_000_000;

/// A process that has the lock, until 300 ms after [`go`], and lives for a second more. It has it when this returns.
fn keeper(path: &Path) -> Child {
    let own = path.to_owned();
    let child = Child::spawn("keeper", move || {
        let file = File::options().write(true).open(&own).unwrap();
        fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        while !own.with_extension("go").exists() {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(300));
        fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        sleep(Duration::from_secs(1));
    });
    let file = File::options().write(true).open(path).unwrap();
    punctual_testing::until("it has the lock", || {
        let mine = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if mine {
            fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        }
        !mine
    });
    child.unwrap()
}

/// Begins the 300 ms. Until then it takes some time to load the programs.
fn go(path: &Path) -> File {
    File::create(path.with_extension("go")).unwrap();
    File::options().write(true).open(path).unwrap()
}

fn a_file() -> (tempfile::TempDir, std::path::PathBuf) {
    a_file_in(env!("CARGO_TARGET_TMPDIR"))
}

fn a_file_in(folder: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = folder.path().join("orders.db");
    File::create(&path).unwrap();
    (folder, path)
}

#[test]
fn a_lock_that_is_waited_for_has_its_file_and_who_had_it() {
    // Its file system is not that of /.
    let (_folder, path) = a_file_in("/dev/shm");
    let mut child = keeper(&path);
    let Some((thread, _)) = watched("waits", || {
        fcntl_lock(go(&path), FlockOperation::LockExclusive).unwrap();
    }) else {
        return;
    };
    assert_whole(&thread);
    let part = spent(&thread, Spent::FileLock)[0];
    assert!(part.ns > 20 * MS && part.call.as_deref() == Some("fcntl"), "{thread:?}");
    assert_eq!(part.thing.file.as_deref(), path.to_str(), "{part:?}");
    // Processes of one name have the number of the first of them.
    assert_eq!(part.who.as_ref().map(|who| who.thread.as_str()), Some("keeper"), "{part:?}");
    child.kill().unwrap();
}

#[test]
fn sleeps_between_refused_tries_are_for_the_lock_and_other_sleeps_are_not() {
    const BETWEEN: Duration = Duration::from_millis(5);
    let (_folder, path) = a_file();
    let mut child = keeper(&path);
    let mut tries = 0;
    let Some((thread, _)) = watched("tries", || {
        let file = go(&path);
        let refused = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        while refused() {
            tries += 1;
            sleep(BETWEEN);
        }
        // It has the lock: these are its own choice.
        (0..40).for_each(|_| sleep(BETWEEN));
    }) else {
        return;
    };
    assert_whole(&thread);
    let parts = spent(&thread, Spent::FileLock);
    let part = parts.first().unwrap_or_else(|| panic!("{thread:?}"));
    // The first sleep is not known to be for another try.
    assert_eq!((parts.len(), part.times), (1, tries - 1), "{thread:?}");
    assert!(part.ns > 20 * MS && part.ns <= part.times * BETWEEN.as_nanos() as u64, "{part:?}");
    assert!(part.thing.file.as_deref().is_some_and(|file| file.ends_with("/orders.db")), "{part:?}");
    assert_eq!(part.who.as_ref().map(|who| who.pid), Some(child.id().cast_unsigned()), "{part:?}");
    assert!(ns(&thread, Spent::Asleep) > 190 * MS, "{thread:?}");
    // Where the kernel hides a wake-up, the time after it is no part of the sleep that was asked for.
    let longest = spent(&thread, Spent::Asleep).iter().map(|part| part.longest_ns).max();
    assert!(longest.is_some_and(|longest| longest <= BETWEEN.as_nanos() as u64), "{thread:?}");
    child.kill().unwrap();
}

#[test]
fn a_sleep_after_one_refused_try_is_no_wait_for_the_lock() {
    let (_folder, path) = a_file();
    let mut child = keeper(&path);
    let Some((thread, _)) = watched("asks", || {
        let file = go(&path);
        let _ = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
        (0..20).for_each(|_| sleep(Duration::from_millis(5)));
    }) else {
        return;
    };
    assert_whole(&thread);
    assert!(spent(&thread, Spent::FileLock).is_empty(), "{thread:?}");
    child.kill().unwrap();
}
