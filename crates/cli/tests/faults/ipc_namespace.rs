//! The table is looked at where no other program makes IPC objects. That is an IPC namespace with a /dev/shm of its
//! own.

use std::process::Command;

/// Set in the process that is there.
const INSIDE: &str = "PUNCTUAL_FAULTS_INSIDE";

const SCRIPT: &str = "mount --make-rprivate / && mount -t tmpfs none /dev/shm && exec \"$@\"";
const STARTER: [&str; 4] = ["--ipc", "--mount", "sh", "-c"];

/// Whether IPC objects that appear are those of the commands under test.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the test `name` again in namespaces of its own, and is true there; also where none can be had.
///
/// # Panics
/// When the test fails there.
pub(crate) fn as_in_ipc_namespace(name: &str) -> bool {
    let inside = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(STARTER).args([SCRIPT, "sh", program]).env(INSIDE, "1");
        command
    };
    if is_inside() {
        return true;
    }
    if !inside("true").output().is_ok_and(|output| output.status.success()) {
        punctual_testing::skip(
            "IPC objects that are left: without an IPC namespace, they cannot be told from those of others",
        );
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let arguments = [name, "--exact", "--include-ignored", "--nocapture"];
    let status = inside(&program.display().to_string()).args(arguments).status().unwrap();
    assert!(status.success(), "what failed is above");
    false
}
