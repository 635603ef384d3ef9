//! How the command ends: its exit status, and what it says of an error.

use std::io::Write as _;
use std::process::ExitCode;

use punctual_report::gate::Outcome;

use crate::refusal::BadUsage;
use crate::terminal;

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// Failure while running.
    Failed,
    /// Bad usage; nothing was changed.
    Usage,
    /// A limit is exceeded.
    Exceeded,
    /// No limit is shown to be exceeded, and at least one could not be judged.
    Undecided,
    /// Ended by this signal.
    Signal(u8),
    /// The exit status of the program of `punctual run`.
    Program(u8),
}

impl Exit {
    /// This status, or a failure if it is success but an output could not be written.
    #[must_use]
    pub(crate) fn unless_lost(self, all_written: bool) -> Self {
        if self == Self::Done && !all_written { Self::Failed } else { self }
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pass => Self::Done,
            Outcome::Fail => Self::Exceeded,
            Outcome::Undecided => Self::Undecided,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Exceeded => 3,
            Exit::Undecided => 4,
            Exit::Signal(number) => 128 + number,
            Exit::Program(status) => status,
        })
    }
}

/// Prints an error on stderr and returns its exit status.
pub(crate) fn explain(error: &anyhow::Error) -> Exit {
    terminal::complain(&format!("error: {}", with_causes(error)));
    if error.is::<BadUsage>() { Exit::Usage } else { Exit::Failed }
}

/// The error and its causes, each once: the message of some errors includes the cause.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.contains(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

/// A backtrace takes about as much.
const BACKTRACE: usize = 4 << 20;

/// Ends the process with one sentence if a panic comes from a lack of memory.
///
/// The standard library panics in a thread that gets no signal stack. Its backtrace then asks for memory that is not
/// there, and the process hangs instead of ending (Rust 1.95, `RUST_BACKTRACE=1`). All other panics print as always.
pub(crate) fn explain_lack_of_memory() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if Vec::<u8>::new().try_reserve_exact(BACKTRACE).is_ok() {
            return usual(panic);
        }
        let text = b"punctual: error: too little memory: raise RLIMIT_DATA or RLIMIT_AS (ulimit -d, ulimit -v)\n";
        let _ = std::io::stderr().write_all(text);
        std::process::exit(1);
    }));
}

/// Stack that a command line needs, more than the kernel gives at first.
const STACK: usize = 512 << 10;

/// Has the kernel extend the stack now, if memory is limited (RLIMIT_AS). Where it refuses later, in the midst of a run, it ends the process
/// with SIGSEGV and without a word.
pub(crate) fn take_stack() {
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        extend_stack();
    }
}

#[inline(never)]
fn extend_stack() {
    std::hint::black_box(&mut [0_u8; STACK]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("listening: {source}; do this")]
    struct Listen {
        source: std::io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let listen = || anyhow::Error::new(Listen { source: std::io::Error::other("no such address") });
        assert_eq!(with_causes(&listen()), "listening: no such address; do this");
        assert_eq!(with_causes(&listen().context("receiving")), "receiving: listening: no such address; do this");
        let quiet = anyhow::anyhow!("no such file").context("reading a.json");
        assert_eq!(with_causes(&quiet), "reading a.json: no such file");
    }
}
