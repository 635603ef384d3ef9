//! `punctual report`.

use std::path::PathBuf;

use clap::Args;

use crate::output::Target;
use crate::terminal::Color;

/// A saved run in another form.
///
/// Reads what --json or --html wrote, on this machine or another. Without a form it is the text that the measuring command printed.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run: a file written with --json or --html, or - for stdin
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Where to write it (- for stdout); with --hgrm also a folder, for a file per series
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) output: Target,
    /// Only these subjects (nanosleep,ppoll)
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// No notices
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Colours in the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// The form.
#[derive(Debug, Args)]
#[command(next_help_heading = "Form")]
#[group(multiple = false)]
pub(crate) struct FormArgs {
    /// Tables and words for a terminal (the default)
    #[arg(long)]
    pub(crate) text: bool,
    /// A page for a browser, with pictures; it needs no network and holds the whole run
    #[arg(long)]
    pub(crate) html: bool,
    /// Tables and words as Markdown, for a ticket or a pull request
    #[arg(long)]
    pub(crate) markdown: bool,
    /// A line per series, for a spreadsheet
    #[arg(long)]
    pub(crate) csv: bool,
    /// Metrics for Prometheus and its kin
    #[arg(long)]
    pub(crate) openmetrics: bool,
    /// A distribution as HdrHistogram's percentile text, for its plotters
    #[arg(long)]
    pub(crate) hgrm: bool,
    /// The whole run as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
