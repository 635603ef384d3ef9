//! What becomes of the results.

use clap::{Args, ValueEnum};
use punctual_report::threshold::Threshold;

use crate::exit::BadUsage;
use crate::output::Target;

/// What becomes of the results.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write the whole run as JSON (- for stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Target>,
    /// Write a page with pictures for a browser (- for stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<Target>,
    /// Write a line per series as CSV (- for stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<Target>,
    /// No progress and no notices
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Colours in the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Exit with status 3 when a series exceeds this (p99=200us; min, p50, p90, p99, p99.9, max, mean)
    #[arg(long, value_name = "KEY=DUR", value_delimiter = ',')]
    pub(crate) fail_above: Vec<Threshold>,
    /// Refuse where another measuring run uses the same CPUs, instead of waiting until it has ended
    ///
    /// Each run holds a lock on every CPU that it may measure on; the locks end with the process. Runs in containers with a network
    /// namespace of their own are not seen. PUNCTUAL_LOCK_NAMESPACE=NAME in the environment names another set of locks, for programs that
    /// start many short runs at once; with an empty name there are no locks.
    #[arg(long, help_heading = "Conditions")]
    pub(crate) no_wait: bool,
    /// No tables on stdout: one of several runs, whose files are what was asked for.
    #[arg(skip)]
    pub(crate) without_tables: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Even into a file or a pipe
    Always,
    /// Not at all
    Never,
}

impl OutputArgs {
    /// Whether a file format goes to stdout, so that nothing else may.
    pub(crate) fn stdout_is_taken(&self) -> bool {
        self.targets().into_iter().any(|(_, target)| *target == Target::Stdout)
    }

    /// Refuses what cannot be written, before anything is measured.
    pub(crate) fn check(&self) -> Result<(), BadUsage> {
        let taking: Vec<&str> =
            self.targets().into_iter().filter(|(_, target)| **target == Target::Stdout).map(|(flag, _)| flag).collect();
        if let [first, second, ..] = taking[..] {
            let text = format!("{first} - and {second} - cannot both have stdout; name a file for one of them");
            return Err(BadUsage(text));
        }
        self.targets().into_iter().try_for_each(|(flag, target)| target.check(flag))
    }

    /// The places that results go to besides the tables, each with its flag.
    pub(crate) fn targets(&self) -> Vec<(&'static str, &Target)> {
        let all = [("--json", &self.json), ("--html", &self.html), ("--csv", &self.csv)];
        all.into_iter().filter_map(|(flag, target)| Some((flag, target.as_ref()?))).collect()
    }
}
