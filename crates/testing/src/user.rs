//! Runs tests in separate processes, as the same user or without privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::disturbance::{Disturbed, undisturbed};

/// A user and group that own nothing (`nobody`, `nogroup`).
pub const NOBODY: u32 = 65534;

/// Marks a copy of this program.
const COPY: &str = "PUNCTUAL_TEST_COPY";

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process runs as root; if it does not, the test is skipped because `only` needs root: `if !needs_root("mounting") { return; }`.
///
/// # Panics
/// Under `PUNCTUAL_NO_SKIP=1`, as [`skip`](crate::skip()).
#[must_use]
#[track_caller]
pub fn needs_root(only: &str) -> bool {
    if !is_root() {
        crate::skip::skip(&format!("{only} needs root"));
    }
    is_root()
}

/// A copy of `program` that every user may run: the folder that cargo builds into may be closed to others.
///
/// # Panics
/// If it cannot be copied.
#[must_use]
pub fn open_copy(program: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("punctual-test-").tempdir().expect("a temporary folder");
    let open = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open()).expect("its mode");
    let copy = folder.path().join(program.file_name().unwrap_or("program".as_ref()));
    crate::copy(program, &copy);
    std::fs::set_permissions(&copy, open()).expect("its mode");
    (folder, copy)
}

/// Runs the test `name` of this program again in a separate process as a plain user. It returns true there:
/// `if !as_plain_user("module::name") { return; }`. Root becomes user 65534; a plain user stays the same.
///
/// # Panics
/// If the test fails as that user.
#[must_use]
#[track_caller]
pub fn as_plain_user(name: &str) -> bool {
    if is_copy() {
        return true;
    }
    let (_folder, program) = open_copy(&std::env::current_exe().expect("this program"));
    let mut copy = again(&program, name);
    copy.current_dir("/");
    if is_root() {
        copy.uid(NOBODY).gid(NOBODY);
    }
    passed(&copy.output().expect("the copy runs"));
    false
}

/// Runs the test `name` of this program again in a separate process, and returns true there. It is for tests that could end the
/// process. SIGXCPU ends that process if a real-time thread ran too long, because a thread of higher priority disturbed it. The
/// test is then repeated, at most 5 times.
///
/// # Panics
/// If the test fails there.
#[must_use]
#[track_caller]
pub fn in_a_process_of_its_own(name: &str) -> bool {
    if is_copy() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    undisturbed(|_| {
        let output = again(&program, name).output().expect("the copy runs");
        if output.status.signal() == Some(Signal::XCPU.as_raw()) {
            return Err(Disturbed(format!("{name}: {}", output.status)));
        }
        passed(&output);
        Ok(())
    });
    false
}

fn is_copy() -> bool {
    std::env::var_os(COPY).is_some()
}

fn again(program: &Path, name: &str) -> Command {
    let mut copy = Command::new(program);
    copy.args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"]).env(COPY, "1");
    copy
}

#[track_caller]
fn passed(output: &Output) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "in a process of its own: {}\n{said}", output.status);
    assert!(said.contains("1 passed"), "the test did not run: {said}");
    said.lines().filter(|line| line.starts_with(crate::skip::PREFIX)).for_each(crate::skip::print);
}
