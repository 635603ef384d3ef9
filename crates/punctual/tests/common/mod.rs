//! What the tests of conditions share.
#![allow(dead_code)]

use std::panic::resume_unwind;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::Conditions;
use punctual_linux::sched::{self, Attributes};

/// Runs `body` on a thread of its own, so that a test that fails to put something back harms no other.
pub(crate) fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(body).join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What belongs to the process or the machine is tested by one test at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything about the calling thread that the conditions touch, as exactly as the kernel tells it.
pub(crate) fn state() -> (Attributes, i32, Vec<usize>, u64) {
    (
        sched::attributes(0).unwrap(),
        sched::nice(0).unwrap(),
        punctual_linux::affinity::affinity(0).unwrap(),
        punctual_linux::prctl::timer_slack_ns().unwrap(),
    )
}

/// Says that a test could not run, or fails where it must.
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    assert!(std::env::var_os("PUNCTUAL_NO_SKIP").is_none(), "skipped: {why}");
}

/// Whether this runs as root with the right to set real-time policies; says so where not.
pub(crate) fn privileged() -> bool {
    let can = on_thread(|| {
        Conditions { policy: Some(punctual::Policy::Fifo(1)), ..Conditions::default() }.apply().refused().is_empty()
    });
    if !can || !rustix::process::geteuid().is_root() {
        skipped("needs root and CAP_SYS_NICE");
        return false;
    }
    true
}

const AS_NOBODY: &str = "PUNCTUAL_TEST_AS_NOBODY";

/// Runs the test `name` of this program again as user 65534, and is true there: `if as_nobody("name") { ... }`.
pub(crate) fn as_nobody(name: &str) -> bool {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(AS_NOBODY).is_some() || !rustix::process::geteuid().is_root() {
        return true;
    }
    // A program that another thread's new child still holds open for writing cannot be run (ETXTBSY).
    let _alone = alone();
    // Where the program was built, the user may have no way in.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(AS_NOBODY, "1")
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "as nobody: {said}");
    assert!(said.contains("1 passed"), "the test did not run: {said}");
    false
}
