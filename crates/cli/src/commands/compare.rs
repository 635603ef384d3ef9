//! `punctual compare`: what changed between saved runs, with statistics. And `punctual merge`: saved runs of one kind as one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use punctual_record::Tool;
use punctual_record::merge::Merger;
use punctual_report::Document;
use punctual_report::compare::limit::{self, Limit};
use punctual_report::compare::{Compared, Options, Side, compare};
use punctual_report::export::{Reported, Write, html, markdown, text};

use super::deliver::{self, Around, Look};
use super::measure::{Perform, command_line};
use crate::args::limits::{self, about_nothing};
use crate::exit::{Exit, with_causes};
use crate::output::{Outputs, Target};
use crate::refusal::BadUsage;
use crate::saved;
use crate::terminal::{self, Color};

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The old and the new run: JSON, a page, or `last`; for several of either, use --old and --new
    #[arg(value_names = ["OLD.json", "NEW.json"], num_args = 0..=2, conflicts_with_all = ["old", "new"], value_parser = saved::run_name())]
    pub(crate) files: Vec<PathBuf>,
    /// Old runs
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new", value_parser = saved::run_name())]
    pub(crate) old: Vec<PathBuf>,
    /// New runs; fewer are needed if recorded interleaved with the old ones (old, new, old, new, ...)
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "old", value_parser = saved::run_name())]
    pub(crate) new: Vec<PathBuf>,
    /// Exit with status 3 if this increase is shown, with 4 if it is not judged ('p99 +10%', 'p50 of nanosleep +5us', 'any +50%')
    ///
    /// The figures are p50, p99, cpu (CPU time per operation) and any. The first line of the report says PASS, FAIL or UNDECIDED, and how
    /// many runs would decide. Without `of SUBJECT` a limit is about lateness, as for the measuring commands; `of *` is every series. The
    /// earlier form 'p99 worse by 10%' is read too.
    #[arg(long, value_name = "LIMIT", value_parser = limits::of_comparison)]
    pub(crate) fail_if: Vec<Limit>,
    /// Report limits that cannot be judged, but do not fail for them
    #[arg(long, requires = "fail_if")]
    pub(crate) allow_unjudged: bool,
    /// Compare series measured under different conditions, or with another parameter such as the interval, to see what that changes
    #[arg(long)]
    pub(crate) across_conditions: bool,
    /// Print all tables, not only the first screen
    #[arg(long, conflicts_with = "format")]
    pub(crate) full: bool,
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
    /// The first screen; --full has all tables
    Text,
    /// For a pull request: differences first, the rest folded
    Markdown,
    /// The whole comparison, for programs
    Json,
}

impl CompareArgs {
    /// Opens the page's file. Refuses one that cannot be written.
    pub(crate) fn open_outputs(&self, inputs: &[PathBuf]) -> anyhow::Result<Outputs> {
        let form = self.format.to_possible_value().filter(|_| self.format != Form::Text);
        let outputs = Outputs::open(self.html.as_ref().map(|target| ("--html", target)), inputs)?;
        match (form, &self.html) {
            (Some(form), Some(target)) if outputs.takes_stdout() => {
                let why = format!("--format {} has stdout already (example: --html page.html)", form.get_name());
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

impl Perform for CompareArgs {
    /// Compares, shows, judges.
    fn perform(&self) -> anyhow::Result<Exit> {
        let (old_files, new_files) = self.sides()?;
        let files = [old_files.as_slice(), &new_files].concat();
        saved::check_distinct(&files)?;
        let outputs = self.open_outputs(&files)?;
        let (old, new) = (side(&old_files)?, side(&new_files)?);
        if let Some(started) = old.shared_with(&new) {
            let why = "a run cannot be compared with itself";
            return Err(BadUsage(format!(
                "invalid runs: the one that began at {started} is an old and a new one: {why}"
            ))
            .into());
        }
        let comparison = compare(&old, &new, Options { across_conditions: self.across_conditions });
        limit::check_subjects(&self.fail_if, &comparison).map_err(|missing| about_nothing("--fail-if", &missing))?;
        let judgement = (!self.fail_if.is_empty()).then(|| limit::evaluate(&self.fail_if, &comparison));
        // Judged before anything is written: a failed write must not hide an exceeded limit.
        let compared = Compared { comparison, judgement };
        let status = status(self, &compared);
        let failed = show(self, &compared, outputs);
        failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
        if compared.comparison.compared == 0 {
            terminal::complain("error: nothing could be compared; the report has the reasons");
        }
        Ok(status.unless_lost(failed.is_empty()))
    }
}

fn side(files: &[PathBuf]) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for file in files {
        // One at a time: files may be large, the part kept of a run is small.
        let run = saved::read_run(file)?;
        side.add(&name(file), &run).with_context(|| file.display().to_string())?;
    }
    Ok(side)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Writes every requested form, even if another fails. Returns the errors.
fn show(args: &CompareArgs, compared: &Compared, outputs: Outputs) -> Vec<anyhow::Error> {
    let mut failed = Vec::new();
    let words = !outputs.takes_stdout();
    for output in outputs.into_all() {
        failed.extend(output.write(|out| Ok(html::write(compared, out)?)).err());
    }
    let document = Document::of_comparison(compared);
    let first_screen = words && args.format == Form::Text && !args.full;
    // On one screen with the verdict, its first finding would stand twice, and many would push it out of sight.
    let hidden = first_screen && terminal::has_both();
    if words {
        failed.extend(printed(args, compared, &document, hidden).err());
    }
    if !hidden {
        terminal::say(&text::notices(&document, &terminal::style_for_notices(args.color)));
    }
    failed
}

fn printed(args: &CompareArgs, compared: &Compared, document: &Document, hidden: bool) -> anyhow::Result<()> {
    let write: Write<Compared> = match args.format {
        Form::Text => {
            let look = Look { full: args.full, quiet: false, measured_now: false, color: args.color };
            let more = if hidden { document.notices().count().saturating_sub(1) } else { 0 };
            let around = Around { file: None, flags: deliver::FLAGS, more, beside: 0 };
            return terminal::print(&deliver::laid_out(document, look, &around, look.style()));
        }
        Form::Markdown => markdown::write,
        Form::Json => Reported::write_json,
    };
    let mut text = Vec::new();
    write(compared, &mut text)?;
    terminal::print(&String::from_utf8_lossy(&text))
}

fn status(args: &CompareArgs, compared: &Compared) -> Exit {
    match &compared.judgement {
        Some(judgement) => match Exit::from(judgement.outcome()) {
            Exit::Undecided if args.allow_unjudged => Exit::Done,
            exit => exit,
        },
        None if compared.comparison.compared == 0 => Exit::Failed,
        None => Exit::Done,
    }
}

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Saved runs (JSON or pages), or `last`; merged runs included
    #[arg(value_name = "RUN.json", required = true, value_parser = saved::run_name())]
    pub(crate) files: Vec<PathBuf>,
    /// File for the merged run, in JSON (-: stdout)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Target,
}

impl Perform for MergeArgs {
    /// Merges the runs and writes the result.
    fn perform(&self) -> anyhow::Result<Exit> {
        saved::check_distinct(&self.files)?;
        let output = Outputs::open([("--output", &self.output)], &self.files)?.into_only()?;
        let mut merger: Option<Merger> = None;
        for file in &self.files {
            let run = saved::read_run(file)?;
            let outcome = match merger.as_mut() {
                None => Merger::new(run).map(|first| merger = Some(first)),
                Some(merger) => merger.add(run),
            };
            outcome.with_context(|| file.display().to_string())?;
        }
        let merger = merger.context("no runs to merge")?;
        let tool = Tool { name: "punctual".into(), version: env!("CARGO_PKG_VERSION").into() };
        let run = merger.finish(tool, command_line("merge"))?;
        output.write(|out| Ok(run.to_json(out)?))?;
        Ok(Exit::Done)
    }
}
