//! The table is looked at where no other program makes IPC objects. That is an IPC namespace with a /dev/shm of its
//! own.

use std::process::Command;

/// Set in the process that tries the faults.
const INSIDE: &str = "PUNCTUAL_FAULTS_INSIDE";
/// Its value where that process has the namespaces.
const OWN_OBJECTS: &str = "own objects";

const SCRIPT: &str = "mount --make-rprivate / && mount -t tmpfs none /dev/shm && exec \"$@\"";
const STARTER: [&str; 4] = ["--ipc", "--mount", "sh", "-c"];

/// Whether this process is the one that tries the faults.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether IPC objects that appear are those of the commands under test.
pub(crate) fn has_own_objects() -> bool {
    std::env::var_os(INSIDE).is_some_and(|value| value == OWN_OBJECTS)
}

/// The file in which that process says that it has tried faults: a name that no test has is no failure of the program of tests.
const TRIED: &str = "PUNCTUAL_FAULTS_TRIED";

/// Says that faults were tried.
pub(crate) fn has_tried() {
    std::fs::write(std::env::var_os(TRIED).unwrap(), "yes").unwrap();
}

/// Runs the test `name` again in namespaces of its own, for the faults with `only` in their names; also where no namespaces can be had.
pub(crate) fn run_inside(name: &str, only: &str) -> Result<(), String> {
    let with_namespaces = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(STARTER).args([SCRIPT, "sh", program]).env(INSIDE, OWN_OBJECTS);
        command
    };
    let program = std::env::current_exe().unwrap().display().to_string();
    let mut command = if with_namespaces("true").output().is_ok_and(|output| output.status.success()) {
        with_namespaces(&program)
    } else {
        punctual_testing::skip(
            "IPC objects that are left: without an IPC namespace, they cannot be told from those of others",
        );
        let mut command = Command::new(program);
        command.env(INSIDE, "with others");
        command
    };
    if !only.is_empty() {
        command.env("PUNCTUAL_FAULTS_ONLY", only);
    }
    let tried = tempfile::NamedTempFile::new().unwrap();
    command.env(TRIED, tried.path());
    let status = command.args([name, "--exact", "--include-ignored", "--nocapture"]).status().unwrap();
    let has_tried = tried.as_file().metadata().unwrap().len() > 0;
    if status.success() && has_tried { Ok(()) } else { Err(format!("{only}: {status}; what failed is above")) }
}
