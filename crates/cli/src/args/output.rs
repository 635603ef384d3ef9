//! What becomes of the results.

use clap::Args;
use punctual_report::threshold::Threshold;

use crate::output::{Outputs, Target};
use crate::terminal::Color;

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

impl OutputArgs {
    /// The places that results go to besides the tables, each with its flag.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&'static str, &Target)> {
        let all = [("--json", &self.json), ("--html", &self.html), ("--csv", &self.csv)];
        all.into_iter().filter_map(|(flag, target)| Some((flag, target.as_ref()?)))
    }

    /// Opens them all; refuses what cannot be written.
    pub(crate) fn open(&self) -> anyhow::Result<Outputs> {
        Outputs::open(self.targets(), &[])
    }
}
