//! `punctual report`: the first screen of a saved run, as its command showed it, or the run in another form.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use punctual_record::sanitize::{self, NAME};
use punctual_record::{Distribution, Limit, Run, Series};
use punctual_report::export::{self, Exporter, MOST_SERIES, OF_RUNS, csv, hgrm, text};
use punctual_report::{Document, gate};

use super::deliver::{self, Around, Look};
use super::measure::Perform;
use crate::args::limits;
use crate::exit::{Exit, with_causes};
use crate::output::{Output, Outputs, Target};
use crate::refusal::{BadUsage, nearest};
use crate::terminal::Color;
use crate::{saved, terminal};

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A file written with --json or --html, or `last`: the last run that this user measured (-: stdin; ./last: a file)
    #[arg(value_name = "RUN", value_parser = saved::run_name())]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Print all tables, not only the first screen; a file has all of them
    #[arg(long, conflicts_with = "form")]
    pub(crate) full: bool,
    /// Output file (-: stdout); with --hgrm also a folder, for a file per series and index.csv
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(crate) output: Target,
    /// Only these subjects (nanosleep,ppoll)
    #[arg(long, value_name = "SUBJECT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Exit with status 3 if a figure exceeds this, with 4 if it is not judged ('p99 > 200us'); replaces the run's limits
    #[arg(long, alias = "fail-above", value_name = "LIMIT", value_delimiter = ',', value_parser = limits::of_run)]
    pub(crate) fail_if: Vec<Limit>,
    /// Print no notices
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// The name of the form, which is its flag. None: text.
#[derive(Debug)]
pub(crate) struct FormArgs(Option<&'static str>);

impl FromArgMatches for FormArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(OF_RUNS.iter().map(|form| form.name).find(|name| matches.get_flag(name))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FormArgs {
    fn augment_args(command: Command) -> Command {
        let flag =
            |form: &Exporter<Run>| Arg::new(form.name).long(form.name).help(form.about).action(ArgAction::SetTrue);
        let group = ArgGroup::new("form").args(OF_RUNS.iter().map(|form| form.name));
        let command = command.next_help_heading("Form");
        command.args(OF_RUNS.iter().map(flag)).group(group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Perform for ReportArgs {
    /// Writes the run in the requested form.
    fn perform(&self) -> anyhow::Result<Exit> {
        let read = || {
            let mut run = saved::read_run(&self.run)?;
            only(&mut run, &self.only)?;
            judge(&mut run, &self.fail_if)?;
            anyhow::Ok(run)
        };
        if let Some(folder) = folder(self) {
            let run = read()?;
            return Ok(said(self, &run, distributions(&run, folder)?));
        }
        let outputs = Outputs::open([("--output", &self.output)], std::slice::from_ref(&self.run))?;
        let takes_stdout = outputs.takes_stdout();
        let output = outputs.into_only()?;
        let run = read()?;
        match self.form.0.and_then(export::of_run).filter(|form| form.name != "text") {
            Some(form) => {
                check(form, &run)?;
                output.write(|out| Ok((form.write)(&run, out)?))?;
            }
            None => self.text(&run, output, takes_stdout)?,
        }
        Ok(said(self, &run, Exit::Done))
    }
}

impl ReportArgs {
    /// Writes the first screen; on request, and into a file, all tables. The notices go to standard error.
    fn text(&self, run: &Run, output: Output, takes_stdout: bool) -> anyhow::Result<()> {
        readable(run)?;
        let document = Document::from_run(run);
        let full = self.full || self.form.0.is_some() || !takes_stdout;
        let look = Look { full, quiet: self.quiet, measured_now: false, color: self.color };
        let (notices, more) = deliver::notices(run, &document, look);
        let around = Around { file: None, flags: FLAGS, more, beside: notices.lines().count() };
        let style = if takes_stdout { look.style() } else { terminal::style_for_file(self.color) };
        let notices = Some(notices).filter(|_| !self.quiet);
        // The answer stands last on a screen, and first in what is longer.
        let (before, after) = if full { (None, notices) } else { (notices, None) };
        before.iter().for_each(|notices| terminal::say(notices));
        output.write(|out| {
            out.extend(deliver::laid_out(&document, look, &around, style).as_bytes());
            Ok(())
        })?;
        after.iter().for_each(|notices| terminal::say(notices));
        Ok(())
    }
}

/// What shows the rest of a run.
const FLAGS: &str = "--full. Page with charts: --html -o FILE.";

/// Replaces the run's limits by those of the command line, if any.
fn judge(run: &mut Run, limits: &[Limit]) -> Result<(), BadUsage> {
    if !limits.is_empty() {
        let series =
            run.series.iter().map(|series| (series.experiment.name(), series.subject.as_str(), series.quantity));
        limits::check(limits, &series.collect::<Vec<_>>())?;
        run.limits = limits.to_vec();
    }
    Ok(())
}

/// Prints the findings of limits on the command line, and returns the exit status.
fn said(args: &ReportArgs, run: &Run, exit: Exit) -> Exit {
    if args.fail_if.is_empty() {
        return exit;
    }
    let judgement = gate::evaluate(run);
    terminal::say(&text::phrases(judgement.phrases(), &terminal::style_for_notices(args.color)));
    if judgement.all_kept() { exit } else { judgement.outcome().into() }
}

/// Refuses a run with more series than the form takes.
fn check(form: &Exporter<Run>, run: &Run) -> Result<(), BadUsage> {
    match run.series.len() {
        _ if form.is_for_people => readable(run),
        n if form.name == "hgrm" && n != 1 => Err(BadUsage(format!(
            "invalid --hgrm: the run has {n} series, one file holds one; name a folder (--output DIR) or a subject (--only)"
        ))),
        _ => Ok(()),
    }
}

/// The folder for distributions.
fn folder(args: &ReportArgs) -> Option<&Path> {
    match &args.output {
        Target::File(path) if args.form.0 == Some("hgrm") && path.is_dir() => Some(path),
        _ => None,
    }
}

/// Keeps the series of these subjects; an empty list keeps all.
fn only(run: &mut Run, subjects: &[String]) -> Result<(), BadUsage> {
    for subject in subjects {
        if !run.series.iter().any(|series| series.subject == *subject) {
            let mut there: Vec<&str> = run.series.iter().map(|series| series.subject.as_str()).collect();
            there.sort_unstable();
            there.dedup();
            let near = nearest(subject, there.iter().map(|name| sanitize::line(name, NAME)));
            let hint = match (there.as_slice(), near.as_slice()) {
                ([], _) => "; it has no series".to_owned(),
                (_, []) => " (`punctual report RUN --full` shows all)".to_owned(),
                (_, near) => format!("; nearest: {}", near.join(", ")),
            };
            return Err(BadUsage::invalid("--only", subject, format!("not a subject of the run{hint}")));
        }
    }
    if !subjects.is_empty() {
        run.series.retain(|series| subjects.contains(&series.subject));
    }
    Ok(())
}

/// Refuses a run with too many series for a text or page.
fn readable(run: &Run) -> Result<(), BadUsage> {
    let n = run.series.len();
    if n <= MOST_SERIES {
        return Ok(());
    }
    let most = MOST_SERIES;
    Err(BadUsage(format!(
        "invalid run: it has {n} series; text, HTML and Markdown take at most {most}; use --only SUBJECT, --csv, --openmetrics or --json"
    )))
}

/// The file in a folder of distributions that says which file has which series.
const INDEX: &str = "index.csv";

/// Writes each distribution to its own file in the folder, and the index, even if another fails.
fn distributions(run: &Run, folder: &Path) -> anyhow::Result<Exit> {
    let names = hgrm::file_names(run);
    let into = |name: &str| Output::open("--output", &Target::File(folder.join(name)));
    let distribution = |(series, name): (&Series, &String)| -> anyhow::Result<()> {
        let distribution = Distribution::from_series(series)?;
        into(name)?.write(|out| Ok(hgrm::write(&distribution, out)?))
    };
    let mut written: Vec<anyhow::Result<()>> = run.series.iter().zip(&names).map(distribution).collect();
    written.push(into(INDEX).and_then(|index| index.write(|out| Ok(csv::index(run, &names, out)?))));
    let mut exit = Exit::Done;
    for error in written.into_iter().filter_map(Result::err) {
        terminal::complain(&format!("error: {}", with_causes(&error)));
        exit = Exit::Failed;
    }
    Ok(exit)
}
