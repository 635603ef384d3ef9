//! Tests in a process of their own, as the same user or as one without privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::disturbance::{Disturbed, undisturbed};

/// A user and group that own nothing (`nobody`, `nogroup`).
pub const NOBODY: u32 = 65534;

/// Tells a copy of this program that it is one.
const COPY: &str = "PUNCTUAL_TEST_COPY";

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A copy of `program` that every user may run: the folder that cargo builds into may be closed to others.
///
/// # Panics
/// When it cannot be copied.
#[must_use]
pub fn open_copy(program: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("punctual-test-").tempdir().expect("a temporary folder");
    let open = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open()).expect("its mode");
    let copy = folder.path().join(program.file_name().unwrap_or("program".as_ref()));
    // By another process: a child forked meanwhile by another test would inherit a descriptor open for writing, and until it runs
    // another program nobody could run this one (ETXTBSY).
    let copied = Command::new("cp").arg(program).arg(&copy).status().expect("cp(1)");
    assert!(copied.success(), "cp {} {}: {copied}", program.display(), copy.display());
    std::fs::set_permissions(&copy, open()).expect("its mode");
    (folder, copy)
}

/// Runs the test `name` of this program again in a process of its own as a plain user, and is true there:
/// `if !as_plain_user("module::name") { return; }`. Only root becomes user 65534 for that; who is a plain user stays the same one.
///
/// # Panics
/// When the test fails as that user.
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

/// Runs the test `name` of this program again in a process of its own, and is true there: for what could end the whole process. A process
/// that the kernel ends because a real-time thread ran for too long (SIGXCPU) was disturbed by a thread of a higher priority: then the
/// test is repeated, a bounded number of times.
///
/// # Panics
/// When the test fails there.
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
    copy.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(COPY, "1");
    copy
}

#[track_caller]
fn passed(output: &Output) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "in a process of its own: {}\n{said}", output.status);
    assert!(said.contains("1 passed"), "the test did not run: {said}");
    said.lines().filter(|line| line.starts_with(crate::skip::PREFIX)).for_each(crate::skip::print);
}
