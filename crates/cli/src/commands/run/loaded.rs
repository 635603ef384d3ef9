//! Libraries that are loaded into the program, with their settings: its own waits, and those of MPI.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::{MpiArgs, RunArgs};
use crate::commands::preload;

/// What works without a library.
const ELSEWHERE: &str = "--timer-slack, --slice and --policy hold for any program, and punctual why says what it lacks";

const COUNTED: &str = "punctual why -- PROGRAM sees any program, with CAP_PERFMON";

/// A variable of the program's environment that holds a setting.
type Setting = (&'static str, String);

/// The libraries that the arguments ask for.
pub(super) struct Libraries {
    waits: Option<PathBuf>,
    mpi: Option<PathBuf>,
    /// Why the program would not see them.
    hidden: Option<String>,
}

/// A library and its settings.
pub(super) struct Loaded {
    library: PathBuf,
    settings: Vec<Setting>,
}

impl Libraries {
    /// Finds them.
    ///
    /// # Errors
    /// If one is not installed.
    pub(super) fn find(args: &RunArgs) -> Result<Self, String> {
        let find = |asked: bool, part| asked.then(|| preload::find(&part)).transpose();
        let waits = find(args.remedies.settings().is_some() || args.observe.observe, preload::WAITS)?;
        let mpi = find(args.mpi.mpi, preload::MPI)?;
        let hidden = if waits.is_some() || mpi.is_some() { preload::hidden(&args.program[0]) } else { None };
        Ok(Self { waits, mpi, hidden })
    }

    /// Whether none is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_none() && self.mpi.is_none()
    }

    /// Why the program sees none of them.
    pub(super) fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// The same, with what this means and what works for any program.
    pub(super) fn trouble(&self, args: &RunArgs) -> Option<String> {
        let why = self.hidden()?;
        Some(match args.remedies.settings() {
            None if self.mpi.is_none() => format!("{why}; its waits are not counted: {COUNTED}"),
            _ => format!("{why}; its waits stay as they are: {ELSEWHERE}"),
        })
    }

    /// Those that the program sees, with their settings. `observed` is the file in which waits are counted.
    pub(super) fn loaded(&self, args: &RunArgs, observed: Option<&Path>) -> Vec<Loaded> {
        if self.hidden.is_some() {
            return Vec::new();
        }
        let remedies = args.remedies.settings().map(|settings| ("PUNCTUAL_PRELOAD", settings));
        let observed = observed.map(|path| ("PUNCTUAL_OBSERVE", path.display().to_string()));
        let inherit = args.no_inherit.then(|| ("PUNCTUAL_INHERIT", "0".to_owned()));
        let settings: Vec<Setting> = remedies.into_iter().chain(observed).collect();
        // Without a file to count in, there may be nothing to do.
        let waits = self.waits.clone().filter(|_| !settings.is_empty());
        let waits = waits.map(|library| Loaded { library, settings: settings.into_iter().chain(inherit).collect() });
        let mpi = self.mpi.clone().map(|library| Loaded { library, settings: of_mpi(&args.mpi) });
        waits.into_iter().chain(mpi).collect()
    }
}

fn of_mpi(args: &MpiArgs) -> Vec<Setting> {
    let polls = args.polls.map(|polls| ("PUNCTUAL_MPI_POLLS", polls.to_string()));
    let sleep = args.longest_sleep.map(|sleep| ("PUNCTUAL_MPI_SLEEP_NS", sleep.as_nanos().to_string()));
    polls.into_iter().chain(sleep).collect()
}

impl Loaded {
    pub(super) fn load_into(&self, command: &mut Command) {
        preload::into(command, &self.library);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        // The library lowers it, and a child of the program would take that for its own.
        if let Ok(slack_ns) = punctual_linux::sched::timer_slack_ns() {
            command.env("PUNCTUAL_SLACK_NS", slack_ns.to_string());
        }
    }
}

/// A step of `--dry-run`.
impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load {}", self.library.display())?;
        for (n, (name, value)) in self.settings.iter().enumerate() {
            let word = if n == 0 { "with" } else { "and" };
            write!(f, " {word} {name}={value}")?;
        }
        Ok(())
    }
}
