//! `punctual compare` and `punctual merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use punctual_report::compare::limit::Limit;

use super::limits;
use crate::input;
use crate::output::{Outputs, Target};
use crate::refusal::BadUsage;
use crate::terminal::Color;

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The old and the new run: JSON, a page, or `last`; for several of either, use --old and --new
    #[arg(value_names = ["OLD.json", "NEW.json"], num_args = 0..=2, conflicts_with_all = ["old", "new"], value_parser = input::run_name())]
    pub(crate) files: Vec<PathBuf>,
    /// Old runs
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new", value_parser = input::run_name())]
    pub(crate) old: Vec<PathBuf>,
    /// New runs; fewer are needed if recorded interleaved with the old ones (old, new, old, new, ...)
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "old", value_parser = input::run_name())]
    pub(crate) new: Vec<PathBuf>,
    /// Exit with status 3 if this increase is shown or not judged ('p99 +10%', 'p50 of nanosleep +5us', 'any +50%')
    ///
    /// The figures are p50, p99, cpu (CPU time per operation) and any. The first line of the report says PASS, FAIL or UNDECIDED, and how
    /// many runs would decide. Without `of SUBJECT` a limit is about lateness, as for the measuring commands; `of *` is every series. The
    /// earlier form 'p99 worse by 10%' is read too.
    #[arg(long, value_name = "LIMIT", value_parser = limits::of_comparison)]
    pub(crate) fail_if: Vec<Limit>,
    /// Report limits that cannot be judged, but do not fail for them
    #[arg(long, requires = "fail_if")]
    pub(crate) allow_unjudged: bool,
    /// Compare series measured under different conditions, to see what the conditions change
    #[arg(long)]
    pub(crate) across_conditions: bool,
    /// Write an HTML page with charts (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<Target>,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Form,
    /// Colour the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// The format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Tables for a terminal
    Text,
    /// For a pull request: differences first, the rest folded
    Markdown,
    /// The whole comparison, for programs
    Json,
}

impl CompareArgs {
    /// Opens the page's file. Refuses one that cannot be written.
    pub(crate) fn open_outputs(&self, inputs: &[PathBuf]) -> anyhow::Result<Outputs> {
        let form = match self.format {
            Form::Text => None,
            Form::Markdown => Some("markdown"),
            Form::Json => Some("json"),
        };
        let outputs = Outputs::open(self.html.as_ref().map(|target| ("--html", target)), inputs)?;
        match (form, &self.html) {
            (Some(form), Some(target)) if outputs.takes_stdout() => {
                let why = format!("--format {form} has stdout already (example: --html page.html)");
                Err(BadUsage::invalid("--html", target, why).into())
            }
            _ => Ok(outputs),
        }
    }

    /// Old and new files.
    pub(crate) fn sides(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), BadUsage> {
        match self.files.as_slice() {
            [] if !self.old.is_empty() => Ok((self.old.clone(), self.new.clone())),
            [old, new] => Ok((vec![old.clone()], vec![new.clone()])),
            [_] => Err(BadUsage(
                "invalid runs: one is given, two are needed (example: punctual compare OLD.json NEW.json)".into(),
            )),
            _ => Err(BadUsage(
                "invalid runs: none is given (example: OLD.json NEW.json, or --old FILE... --new FILE...)".into(),
            )),
        }
    }
}

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Saved runs (JSON or pages), or `last`; merged runs included
    #[arg(value_name = "RUN.json", required = true, value_parser = input::run_name())]
    pub(crate) files: Vec<PathBuf>,
    /// File for the merged run, in JSON (-: stdout)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Target,
}
