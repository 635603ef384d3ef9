//! `punctual report`.

use std::path::PathBuf;

use clap::Args;

use punctual_record::Limit;

use super::limits;
use crate::input;
use crate::output::Target;
use crate::terminal::Color;

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A file written with --json or --html, or `last`: the last run that this user measured (-: stdin; ./last: a file)
    #[arg(value_name = "RUN", value_parser = input::run_name())]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Output file (-: stdout); with --hgrm also a folder, for a file per series and index.csv
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) output: Target,
    /// Only these subjects (nanosleep,ppoll)
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Exit with status 3 if a figure exceeds this or is not judged ('p99 > 200us'); replaces the run's limits
    #[arg(long, alias = "fail-above", value_name = "LIMIT", value_delimiter = ',', value_parser = limits::of_run)]
    pub(crate) fail_if: Vec<Limit>,
    /// Print no notices
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// The form.
#[derive(Debug, Args)]
#[command(next_help_heading = "Form")]
#[group(multiple = false)]
pub(crate) struct FormArgs {
    /// Tables and text for a terminal (default)
    #[arg(long)]
    pub(crate) text: bool,
    /// HTML page with charts; works offline and holds the whole run
    #[arg(long)]
    pub(crate) html: bool,
    /// Markdown, for a ticket or a pull request
    #[arg(long)]
    pub(crate) markdown: bool,
    /// CSV, a line per series
    #[arg(long)]
    pub(crate) csv: bool,
    /// OpenMetrics text, for Prometheus
    #[arg(long)]
    pub(crate) openmetrics: bool,
    /// HdrHistogram percentile distribution, for its plotters
    #[arg(long)]
    pub(crate) hgrm: bool,
    /// JSON, the whole run
    #[arg(long)]
    pub(crate) json: bool,
}

impl FormArgs {
    /// The name of the exporter; None of text.
    pub(crate) fn name(&self) -> Option<&'static str> {
        let all = [
            (self.html, "html"),
            (self.markdown, "markdown"),
            (self.csv, "csv"),
            (self.openmetrics, "openmetrics"),
            (self.hgrm, "hgrm"),
            (self.json, "json"),
        ];
        all.into_iter().find_map(|(wanted, name)| wanted.then_some(name))
    }
}
