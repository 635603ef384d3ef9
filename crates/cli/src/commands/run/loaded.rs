//! Libraries that are loaded into the program, with their settings: its own waits, and those of MPI.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::{MpiArgs, RunArgs};
use crate::commands::preload;

/// What works without a library.
const ELSEWHERE: &str = "--timer-slack, --slice and --policy hold for any program, and punctual why says what it lacks";

const COUNTED: &str = "punctual why -- PROGRAM sees any program, with CAP_PERFMON";
/// The library for waits.
const WAITS: &str = "libpunctual_preload.so";

/// A variable of the program's environment that holds a setting.
type Setting = (&'static str, String);

/// A library and its settings.
pub(super) struct Loaded {
    library: PathBuf,
    settings: Vec<Setting>,
}

/// The libraries that were asked for, or why the program would not see one. Its waits then stay as they are. `observed` is the file in
/// which waits are counted.
pub(super) fn libraries(args: &RunArgs, observed: Option<&Path>) -> (Vec<Loaded>, Vec<String>) {
    let remedies = args.remedies.settings().map(|settings| ("PUNCTUAL_PRELOAD", settings));
    let observed = observed.map(|path| ("PUNCTUAL_OBSERVE", path.display().to_string()));
    let settings: Vec<Setting> = remedies.into_iter().chain(observed).collect();
    let waits = (!settings.is_empty()).then_some((WAITS, settings));
    let mpi = args.mpi.mpi.then(|| ("libpunctual_mpi.so", of_mpi(&args.mpi)));
    let (mut found, mut hidden) = (Vec::new(), Vec::new());
    for (file, settings) in waits.into_iter().chain(mpi) {
        let seen = preload::find(file).and_then(|library| preload::hidden(&args.program[0]).map_or(Ok(library), Err));
        match seen {
            Ok(library) => found.push(Loaded { library, settings }),
            Err(why) if file == WAITS && args.remedies.settings().is_none() => {
                hidden.push(format!("{why}; its waits are not counted: {COUNTED}"))
            }
            Err(why) => hidden.push(format!("{why}; its waits stay as they are: {ELSEWHERE}")),
        }
    }
    (found, hidden)
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
        if let Ok(slack_ns) = punctual_linux::prctl::timer_slack_ns() {
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
