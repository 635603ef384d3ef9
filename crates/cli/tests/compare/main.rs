//! `punctual compare` and `punctual merge` as a user meets them.

mod comparison;
mod fixtures;
mod html;
mod malformed_files;
mod merge;
mod until;

use std::path::Path;
use std::process::{Command, Stdio};

/// What a finished command left.
pub(crate) struct Left {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command in a folder.
pub(crate) fn punctual(folder: &Path, args: &[&str]) -> Left {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let output = command.output().expect("the command starts");
    Left {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}
