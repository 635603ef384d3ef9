//! The ramp: how a fixed piece of work speeds up under each governor, as table, chart and words.

use std::io::Write;

use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::statistics::confidence_ranks;
use punctual_record::{Experiment, Quantile, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::prose::unbroken;
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, under};
use crate::pictures::{self, ramp::Loops};

use super::shared::{ALWAYS, Family, Measured, measured, no_answer, no_candidates};

type Ramp<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family = Family { experiment: "ramp", sections, candidates: no_candidates, answer: no_answer };
/// The subject where no governor was set.
const AS_FOUND: &str = "as found";
/// The one that the check-up tries.
const PERFORMANCE: &str = "performance";
/// From this ratio of a loop to the best one on, something stretched it: no change of frequency does that in the middle of a run.
const STRETCHED: f64 = 1.5;
/// From this ratio of the first loop to the best one on, a rest costs speed that is worth a word.
const SLOW_START: f64 = 1.2;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::ramp);
    let Some(first) = series.first() else { return Vec::new() };
    let on = first.metrics.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let heading = format!(
        "ramp: loops of {} of fixed work{on}, {}, after a rest of {}",
        units::exact(first.parameters.work_ns),
        under(&conditions(run, &first.conditions)),
        units::exact(first.parameters.rest_ns)
    );
    let table = Columns::new()
        .left("governor", ALWAYS, |series: &Ramp<'_>| sanitize(&series.subject))
        .ns("first", ALWAYS, |series| series.metrics.first_ns)
        .ns("final", ALWAYS, |series| series.metrics.final_ns)
        .estimate("p50", (ALWAYS, 40), |series| (series.summary.p50, series.summary.ci95.p50))
        .ns("max", 50, |series| series.summary.max)
        .share("spread", 60, spread)
        .right("to full speed", ALWAYS, to_full_speed)
        .count("changes", 70, |series| series.metrics.transitions)
        .known("ended at", 75, |series| series.metrics.ended_khz, |khz| format!("{:.2} GHz", khz as f64 / 1e6))
        .of(&series);
    let mut section = Section::new(heading).with(Block::Table(table));
    section.blocks.push(Block::Legend(vec![
        Note::always("first, final: median over the rounds of the first and the last loop."),
        Note::on("spread", "spread: (p90 - p10) / p50 of the later half of the loops, with what interrupted them."),
        Note::always("to full speed: until loops take at most 5 % longer than the shortest loop of the run, median over the rounds."),
        Note::on("changes", "changes: frequency transitions that the kernel counted during the loops, all rounds together."),
        Note::on("ended at", "ended at: what the kernel last asked for, after the last loop."),
    ]));
    let loops = |series: &Ramp<'_>| Loops {
        name: sanitize(&series.subject),
        typical: typical(series),
        to_full_speed_ns: series.metrics.to_full_speed_ns,
        p50: series.summary.p50,
    };
    section.blocks.extend(pictures::ramp::album(series.iter().map(loops).collect()).map(Block::Album));
    let mut sections = vec![section];
    let said: Vec<String> = series.iter().flat_map(words).chain(variation(&series)).collect();
    if !said.is_empty() {
        sections.push(Section::default().with(Block::said(said)));
    }
    sections
}

fn to_full_speed(series: &Ramp<'_>) -> String {
    match (series.metrics.to_full_speed_ns, series.metrics.rounds_at_full_speed) {
        (Some(0), _) => "at once".to_owned(),
        (Some(ns), _) => units::duration(ns),
        (None, Some(0)) => "never".to_owned(),
        (None, Some(n)) => format!("{n} of {} rounds", series.rounds.len()),
        (None, None) => units::ABSENT.to_owned(),
    }
}

/// The rounds' loops, each round in order.
fn rounds<'a>(series: &Ramp<'a>) -> Vec<&'a [i64]> {
    let samples = series.series.samples.as_deref().unwrap_or_default();
    let loops = usize::try_from(series.parameters.loops).ok().filter(|n| *n > 0);
    samples.chunks(loops.unwrap_or(samples.len().max(1))).collect()
}

/// Loop by loop the middle one of all rounds.
fn typical(series: &Ramp<'_>) -> Vec<i64> {
    let rounds = rounds(series);
    let loops = rounds.iter().map(|round| round.len()).max().unwrap_or(0);
    let middle = |index: usize| {
        let mut here: Vec<i64> = rounds.iter().filter_map(|round| round.get(index).copied()).collect();
        here.sort_unstable();
        here.get(here.len().saturating_sub(1) / 2).copied()
    };
    (0..loops).filter_map(middle).collect()
}

/// How much the settled loops vary.
fn spread(series: &Ramp<'_>) -> Option<f64> {
    let mut settled: Vec<i64> =
        rounds(series).into_iter().flat_map(|round| round[round.len() / 2..].iter().copied()).collect();
    settled.sort_unstable();
    let at = |share: f64| settled.get(((settled.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    // Fewer than twenty values have no tenth worth the name.
    let (p10, p50, p90) = (at(0.1)?, at(0.5)?, at(0.9)?);
    (settled.len() >= 20 && p50 > 0).then(|| (p90 - p10) as f64 / p50 as f64)
}

/// What is to be said of a series.
fn words(series: &Ramp<'_>) -> Vec<String> {
    let name = sanitize(&series.subject);
    let mut said = Vec::new();
    let text = |text: &Option<String>| text.as_deref().map(sanitize);
    match (series.metrics.to_full_speed_ns, text(&series.metrics.why)) {
        (None, Some(why)) => said.push(format!("{name} did not reach full speed: {why}.")),
        (None, None) if is_at_the_highest(series) => said.push(format!(
            "{name} did not reach full speed within these loops although the kernel had the CPU at its highest frequency: what slowed \
             them was something else."
        )),
        (None, None) => {
            said.push(format!("{name} did not reach full speed within these loops, and nothing here tells why."))
        }
        (Some(_), Some(why)) => said.push(format!("{name} ended below the highest frequency: {why}.")),
        (Some(ns), _) if ns > 0 => {
            said.push(format!("{name} needed {} of work to reach full speed.", unbroken(&units::duration(ns))));
        }
        _ => {}
    }
    if let Some(raised) = text(&series.metrics.raised)
        .filter(|_| ["ondemand", "conservative", "schedutil"].contains(&series.subject.as_str()))
    {
        said.push(format!("For the run of {name} these kernel threads were raised, and put back: {raised}."));
    }
    let best = series.metrics.best_ns.unwrap_or(i64::MAX) as f64;
    let samples = series.samples.as_deref().unwrap_or_default();
    let stretched = samples.iter().filter(|ns| **ns as f64 > best * STRETCHED).count();
    if series.subject == AS_FOUND && stretched > 0 {
        let share = units::share(stretched as f64 / samples.len() as f64);
        said.push(format!(
            "{stretched} of {} loops ({share}) took more than half as long again as the best: a lower clock, the hypervisor, or others \
             on this CPU.",
            units::count(samples.len() as u64)
        ));
    }
    said
}

/// Whether the kernel asked for the highest frequency allowed after the last loop.
fn is_at_the_highest(series: &Ramp<'_>) -> bool {
    series.metrics.ended_khz.zip(series.metrics.max_khz).is_some_and(|(ended, max)| ended >= max)
}

/// What of the spread is the work's own, and what interrupted it: one sentence for all governors.
fn variation(all: &[Ramp<'_>]) -> Option<String> {
    let told: Vec<&Ramp<'_>> = all.iter().filter(|series| series.metrics.own_spread.is_some()).collect();
    // The figure, under its governor where there are several.
    let each = |figure: &dyn Fn(&Metrics) -> Option<String>| {
        let one = |series: &&Ramp<'_>| {
            let figure = unbroken(&figure(series.metrics)?);
            Some(if told.len() > 1 { format!("{figure} ({})", sanitize(&series.subject)) } else { figure })
        };
        told.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let own = each(&|metrics| metrics.own_spread.map(units::share));
    if own.is_empty() {
        return None;
    }
    let name = if let [one] = told[..] { format!("{}: without", sanitize(&one.subject)) } else { "Without".to_owned() };
    let own = format!("{name} interruptions the loops vary by {own}");
    let took = each(&|metrics| metrics.interruption_ns.map(units::duration));
    if took.is_empty() {
        return Some(format!("{own}; none was interrupted."));
    }
    Some(format!(
        "{own}; {} were interrupted, for {took} at the median: the timer's tick, other interrupts, or the hypervisor. What slows all of \
         a loop alike, a lower clock or a busy sibling of the core, is not taken out.",
        each(&|metrics| metrics.interrupted_share.map(units::share))
    ))
}

/// By how much the first loop of a round was sooner done, at the median over the rounds, with its interval.
struct Sooner {
    middle: i64,
    low: i64,
    high: i64,
}

/// From the rounds that both have, which follow each other. `None` with too few rounds for significance.
fn sooner(found: &Ramp<'_>, tried: &Ramp<'_>) -> Option<Sooner> {
    let first = |series| rounds(series).into_iter().filter_map(|round| round.first().copied());
    let mut differences: Vec<i64> = first(found).zip(first(tried)).map(|(found, tried)| found - tried).collect();
    differences.sort_unstable();
    let ranks = confidence_ranks(differences.len() as u64, Quantile::P50)?;
    let at = |rank: u64| differences.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
    Some(Sooner { middle: differences[differences.len() / 2], low: at(ranks.low)?, high: at(ranks.high)? })
}

/// Whether a run is one of ramps alone.
pub(crate) fn is_all(run: &Run) -> bool {
    !run.series.is_empty()
        && run.series.iter().all(|series| series.experiment.ramp().is_some() && series.samples.is_some())
}

/// The loops as columns for gnuplot: `loop`, and per governor the duration of that loop in ns, the middle one of all rounds.
pub(crate) fn columns(run: &Run, writer: impl Write) -> Result<(), csv::Error> {
    let series: Vec<&Series> = run.series.iter().collect();
    let ramps = measured(&series, Experiment::ramp);
    let lines: Vec<(String, Vec<i64>)> = ramps.iter().map(|ramp| (ramp.subject.clone(), typical(ramp))).collect();
    let loops = lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let mut csv = csv::WriterBuilder::new().from_writer(writer);
    csv.write_record(std::iter::once("loop").chain(lines.iter().map(|(name, _)| name.as_str())))?;
    for index in 0..loops {
        let cell = |(_, values): &(String, Vec<i64>)| values.get(index).map(i64::to_string).unwrap_or_default();
        csv.write_record(std::iter::once((index + 1).to_string()).chain(lines.iter().map(cell)))?;
    }
    csv.flush()?;
    Ok(())
}
