//! Running the command and looking at what came out.

use std::process::{Command, Output, Stdio};

use punctual_record::Run;

/// The command, with an environment that is the same everywhere.
pub(crate) fn punctual(args: &[&str]) -> Command {
    // Tests that end it by a signal must not depend on who started them. In the background SIGINT may be ignored.
    punctual_linux::signal::heed_what_ends_a_program().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").env("TERM", "xterm").stdin(Stdio::null());
    // Tests run at the same time, and do not wait for each other.
    command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A measurement that is over soon. A busy machine delays these samples; of a time it could leave none.
pub(crate) const SHORT: [&str; 4] = ["--samples", "300", "--rounds", "2"];

/// What a finished command left.
pub(crate) struct Left {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Left {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// Runs it to its end.
pub(crate) fn run(args: &[&str]) -> Left {
    punctual(args).output().expect("the command starts").into()
}

/// Runs it with `--json -` and reads the run back.
pub(crate) fn measured(args: &[&str]) -> (Run, Left) {
    let left = run(&[args, &["--json", "-"]].concat());
    let run =
        Run::from_json(left.stdout.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{}\n{}", left.stdout, left.stderr));
    (run, left)
}

/// What each of these is refused with, one command after the other. The status is 2, stdout is empty, and the words are
/// on stderr.
pub(crate) fn refusals(cases: &[&[&str]]) -> String {
    let mut said = String::new();
    for case in cases {
        let left = run(case);
        assert_eq!(left.code, Some(2), "{case:?}: {}", left.stderr);
        assert_eq!(left.stdout, "", "{case:?}");
        said.push_str(&format!("$ punctual {}\n{}\n", case.join(" "), left.stderr.trim_end()));
    }
    said
}
