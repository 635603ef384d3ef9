//! `punctual compare` and `punctual merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use punctual_report::compare::limit::Limit;

use crate::exit::BadUsage;
use crate::output::{Outputs, Target};
use crate::terminal::Color;

/// What became later or sooner between saved runs, with statistics.
///
/// Compares p50, p99 and CPU time per operation of every series that both sides have. A difference is called one only where it is larger
/// than what the runs themselves scatter by, corrected for the number of comparisons (docs/method.md).
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The old run and the new one, written with --json; for several of either, use --old and --new
    #[arg(value_name = "OLD.json NEW.json", num_args = 0..=2, conflicts_with_all = ["old", "new"])]
    pub(crate) files: Vec<PathBuf>,
    /// Old runs
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new")]
    pub(crate) old: Vec<PathBuf>,
    /// New runs; taken in turns with the old ones (old, new, old, new, ...), fewer of them show more
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "old")]
    pub(crate) new: Vec<PathBuf>,
    /// Exit with status 3 when this is shown, or cannot be judged ('p99 worse by 10%', 'p50 of nanosleep worse by 5us', 'any worse by 50%')
    #[arg(long, value_name = "LIMIT")]
    pub(crate) fail_if: Vec<Limit>,
    /// Do not fail for what cannot be judged; it is still said
    #[arg(long, requires = "fail_if")]
    pub(crate) allow_unjudged: bool,
    /// Compare series although their conditions differ: what the change of conditions did is the question
    #[arg(long)]
    pub(crate) across_conditions: bool,
    /// Write a page with pictures for a browser (- for stdout, instead of the tables)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<Target>,
    /// Form of the result on stdout
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub(crate) format: Form,
    /// Colours in the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Form of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Tables for a terminal
    Text,
    /// For a pull request: what differs on top, the rest folded away
    Markdown,
    /// Everything, for programs
    Json,
}

impl CompareArgs {
    /// Opens the page's place; refuses what cannot be written.
    pub(crate) fn open_outputs(&self, inputs: &[PathBuf]) -> anyhow::Result<Outputs> {
        let form = match self.format {
            Form::Text => None,
            Form::Markdown => Some("markdown"),
            Form::Json => Some("json"),
        };
        let outputs = Outputs::open(self.html.as_ref().map(|target| ("--html", target)), inputs)?;
        match (form, &self.html) {
            (Some(form), Some(target)) if outputs.takes_stdout() => {
                let why = "cannot both have stdout; name a file for the page";
                Err(BadUsage(format!("--html {target} and --format {form} {why}")).into())
            }
            _ => Ok(outputs),
        }
    }

    /// Old and new files.
    pub(crate) fn sides(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), BadUsage> {
        match self.files.as_slice() {
            [] if !self.old.is_empty() => Ok((self.old.clone(), self.new.clone())),
            [old, new] => Ok((vec![old.clone()], vec![new.clone()])),
            [one] => Err(BadUsage(format!("{} alone compares with nothing; give OLD.json NEW.json", one.display()))),
            _ => Err(BadUsage("give OLD.json NEW.json, or --old FILE... --new FILE...".into())),
        }
    }
}

/// Saved runs of one kind, added together into one.
///
/// Histograms add up and rounds follow each other; what each run contributed stays known. The runs may come from one machine or from many.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Runs, written with --json; merged ones too
    #[arg(value_name = "RUN.json", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Where the merged run goes (- for stdout)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Target,
}
