//! Running the command, and reading what it found out.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use punctual_record::{CauseSource, Causes, Run};
use punctual_testing::{Lack, NOBODY, is_root, lacks};

/// The command under test, with an environment that is the same everywhere.
pub(crate) fn punctual(args: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_punctual").as_ref(), args)
}

pub(crate) fn program(path: &Path, args: &[&str]) -> Command {
    punctual_linux::signal::heed_what_ends_a_program().unwrap();
    let mut command = Command::new(path);
    command.args(args).env("LC_ALL", "C.UTF-8").env("PUNCTUAL_LOCK_NAMESPACE", "").stdin(Stdio::null());
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR")).env_remove("NO_COLOR");
    command
}

pub(crate) fn output(args: &[&str]) -> Output {
    punctual(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The causes in a file that the command wrote.
pub(crate) fn causes(path: &Path) -> Causes {
    let run = Run::from_json(&std::fs::read(path).unwrap()[..]).unwrap();
    run.causes.expect("the run has causes")
}

/// Whether single wake-ups were seen. Fails where this machine shows them.
pub(crate) fn saw_events(causes: &Causes) -> bool {
    if causes.source == CauseSource::RunDelay {
        lacks(Lack::Events);
    }
    causes.source == CauseSource::Tracepoints
}

/// As a plain user, if this is root.
pub(crate) fn as_nobody(command: &mut Command) -> &mut Command {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/")
}

/// A program that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn sh(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
