//! How the command ends: its exit status, what it says of an error, and the signals that end it early. After such a signal (Ctrl-C) the
//! results so far are reported.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use punctual_lab::Stop;
use punctual_linux::signal::is_ignored;
use punctual_report::gate::Outcome;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

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
    /// That of a run: of the signal that ended it early, else success.
    pub(crate) fn of(stop: &Stop) -> Self {
        let number =
            |name: &str| SIGNALS.iter().find(|(_, known)| *known == name).map_or(SIGHUP, |(number, _)| *number);
        stop.reason().map_or(Self::Done, |name| Self::Signal(number(&name) as u8))
    }

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

/// The signals that end a measurement.
const SIGNALS: [(i32, &str); 4] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP"), (SIGXCPU, "SIGXCPU")];

/// Starts listening for signals. The first signal asks the run to end. A second one ends the process at once, and the kernel releases thread
/// conditions and open files. Signals ignored at the start (`nohup`, the background of a script) stay ignored.
pub(crate) fn listen_for_signals(stop: &Stop) -> anyhow::Result<()> {
    let stop = stop.clone();
    // At a file size limit the write fails, instead of the signal ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("heeding SIGXFSZ")?;
    let wanted = SIGNALS.into_iter().map(|(signal, _)| signal).filter(|signal| !is_ignored(*signal).unwrap_or(false));
    let mut signals = Signals::new(wanted).context("listening for SIGINT, SIGTERM, SIGHUP and SIGXCPU")?;
    let thread = std::thread::Builder::new().name("signals".into());
    let listener = move || {
        stop.attend_from_this_thread();
        for signal in signals.forever() {
            // If a reader blocks the results, the first signal ends only that output.
            // The kernel repeats SIGXCPU every second, and finally ends the process itself.
            if signal != SIGXCPU && !terminal::give_up() && stop.reason().is_some() {
                // A thread that never gets its CPU could not end with the process.
                punctual_linux::sched::free_process(std::process::id() as i32, None);
                std::process::exit(128 + signal);
            }
            stop.request(name(signal));
        }
    };
    // SIGCONT reports that the process was stopped (SIGSTOP, Ctrl-Z) and continues.
    signal_hook::flag::register(SIGCONT, punctual_lab::continued()).context("listening for SIGCONT")?;
    thread.spawn(listener).context("starting the thread that listens for signals")?;
    Ok(())
}

/// The name of a signal.
fn name(signal: i32) -> &'static str {
    SIGNALS.iter().find(|(number, _)| *number == signal).map_or("SIGHUP", |(_, name)| name)
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
