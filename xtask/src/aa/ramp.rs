//! How often `governor ramp` claims something where nothing changes.
//!
//! Every run measures one speed: the governor `performance`, or the machine as found where none can be set. So each
//! claim of a speed-up, of a slower governor or of a remedy is false. Each run is looked at in three ways. The first
//! is as it was recorded. The second is as if the kernel exposed a frequency that changes, so that the test alone
//! decides. The third has every other round as another governor's.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::{
    About, Cpufreq, Experiment, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Typed, Usage,
};
use punctual_report::Verdict;
use punctual_report::verdict::Standing;

use super::measured::{self, Measuring};

/// Options of `aa ramp`.
#[derive(Debug, clap::Args)]
pub(crate) struct RampArgs {
    /// Runs
    #[arg(long, default_value_t = 200)]
    runs: usize,
    #[command(flatten)]
    measuring: Measuring,
}

/// The share of runs that may claim something.
const ALLOWED: f64 = 0.05;
/// What each run measures: twice the rounds of the check-up, so that each half has as many.
const COMMAND: [&str; 9] = ["governor", "ramp", "performance", "--rounds", "12", "--loops", "60", "--rest", "50ms"];
/// Loops of a round that count as the first.
const FIRST: usize = 3;

/// A run as it is looked at; `None` of one without loops.
type Look = fn(&Run) -> Option<Run>;

/// Measures the missing runs and prints the rates.
pub(crate) fn run(args: &RampArgs) -> anyhow::Result<()> {
    let folder = args.measuring.folder("xtask-aa-ramp")?;
    let files: Vec<((), PathBuf)> =
        (1..=args.runs).map(|number| ((), folder.join(format!("r{number:03}.json")))).collect();
    let measure = |binary: &Path, (): &(), path: &Path| measured::save(binary, &COMMAND, path);
    if !args.measuring.missing(&files, measure)? {
        println!("some runs are missing: call again");
        return Ok(());
    }
    let runs: Vec<Run> = files.iter().map(|(_, path)| measured::read(path)).collect::<anyhow::Result<_>>()?;
    let looks: [(&str, Look); 3] = [
        ("as recorded", |run| Some(as_checkup(run.clone()))),
        ("frequency taken as exposed", |run| exposed(run)),
        ("every other round as another governor", |run| halves(run)),
    ];
    println!("| look | runs that claim something | of |\n|:--|--:|--:|");
    let mut worst: f64 = 0.0;
    for (name, look) in looks {
        let judged: Vec<bool> = runs.iter().filter_map(look).map(|run| claims(&run)).collect();
        let claiming = judged.iter().filter(|claims| **claims).count();
        println!("| {name} | {claiming} | {} |", judged.len());
        worst = worst.max(claiming as f64 / judged.len().max(1) as f64);
    }
    ensure!(worst <= ALLOWED, "more than {:.0} % of the runs claim what is not there", 100.0 * ALLOWED);
    Ok(())
}

/// A check-up says only what is shown: every sentence is a claim, and so is every remedy with an effect.
fn claims(run: &Run) -> bool {
    let verdict = Verdict::from_run(run);
    let has_effect = |standing: Standing| !matches!(standing, Standing::NoDifference | Standing::NotTested);
    !verdict.answer.is_empty() || verdict.advice.iter().chain(&verdict.tried).any(|advice| has_effect(advice.standing))
}

fn as_checkup(run: Run) -> Run {
    Run { subcommand: "checkup".into(), ..run }
}

/// The one series of the run, with its parameters, and its loops, round by round.
fn loops(run: &Run) -> Option<(&Series, &Parameters, Vec<&[i64]>)> {
    let series = run.series.iter().find(|series| series.quantity == Quantity::Loop)?;
    let parameters = &series.experiment.ramp()?.parameters;
    Some((series, parameters, series.samples.as_deref()?.chunks(parameters.loops as usize).collect()))
}

/// The run as if the kernel had counted a change of its frequency.
fn exposed(run: &Run) -> Option<Run> {
    let (series, parameters, rounds) = loops(run)?;
    Some(pretended(run, ramp("as found", series, parameters, &rounds).to_vec()))
}

/// The run as if every other round were under `performance`.
fn halves(run: &Run) -> Option<Run> {
    let (series, parameters, rounds) = loops(run)?;
    let half = |skip: usize| rounds.iter().copied().skip(skip).step_by(2).collect::<Vec<_>>();
    let found = ramp("as found", series, parameters, &half(0));
    let tried = ramp("performance", series, parameters, &half(1));
    Some(pretended(run, found.into_iter().chain(tried).collect()))
}

fn pretended(run: &Run, series: Vec<Series>) -> Run {
    let mut run = as_checkup(Run { series, ..run.clone() });
    run.host.cpufreq = Some(Cpufreq { governors: vec!["schedutil".into()], ..Cpufreq::default() });
    run
}

/// The two series of a governor with these rounds.
fn ramp(subject: &str, like: &Series, parameters: &Parameters, rounds: &[&[i64]]) -> [Series; 2] {
    let series_of = |quantity, take| {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, loops) in (0..).zip(rounds) {
            recorder.clear();
            loops.iter().take(take).for_each(|ns| recorder.record(*ns));
            tally.add_round(round, 0, &recorder, Usage::default());
        }
        let metrics = Metrics { transitions: Some(1), driver: Some("pretended".into()), ..Metrics::default() };
        tally.to_series(SeriesId {
            experiment: Experiment::Ramp(Typed { parameters: parameters.clone(), metrics }),
            subject: subject.into(),
            about: About::default(),
            conditions: like.conditions.clone(),
            quantity,
        })
    };
    let loops = Series { samples: Some(rounds.concat()), ..series_of(Quantity::Loop, usize::MAX) };
    [loops, series_of(Quantity::FirstLoops, FIRST)]
}
