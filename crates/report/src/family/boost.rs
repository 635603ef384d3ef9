//! The boost: deadlines met and the cost, with the machine as found, with boosted activations, and at permanent full
//! speed.

mod answer;
mod deadlines;

use punctual_record::experiment::boost::Metrics;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::{sanitize, spoken, unbroken, units};
use crate::naming::{AS_FOUND, conditions, under};

use super::shared::{ALWAYS, Family, measured};
use deadlines::{BOOST, Boost, met};

pub(super) const FAMILY: Family =
    Family { experiment: "boost", sections, candidates: answer::candidates, answer: answer::answer };

/// A reported full speed this much below the upper limit is worth a remark: 5 %.
const SHORT_OF_LIMIT: f64 = 0.95;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::boost);
    let Some(first) = series.first() else { return Vec::new() };
    let on = first.metrics.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let heading = format!(
        "boost: {} of fixed work every {}{on}, due after {}, {}",
        units::exact(first.parameters.work_ns),
        units::exact(first.parameters.period_ns),
        units::exact(first.parameters.deadline_ns),
        under(&conditions(run, &first.conditions))
    );
    let table = Columns::new()
        .left("speed", ALWAYS, name)
        .right("met", ALWAYS, met)
        .estimate("p50", (ALWAYS, 40), |series: &Boost<'_>| (series.summary.p50, series.summary.ci95.p50))
        .ns("p99", 60, |series| series.summary.p99)
        .ns("max", ALWAYS, |series| series.summary.max)
        .known("clock", 75, |series| series.metrics.mean_khz, units::gigahertz)
        .known("power", 70, |series| series.metrics.power_mw, |mw| format!("{:.2} W", mw as f64 / 1e3))
        .known("CPU time", 50, |series| series.cpu_ns_per_op, units::duration)
        .of(&series);
    let legend = Block::Legend(vec![
        Note::always("p50, p99, max: response time, from the activation to the end of its work. met: deadlines."),
        Note::on("clock", "clock: mean frequency, from the time that the kernel counted at each, idle time included."),
        Note::on("power", "power: of all packages, as the CPU counts it (RAPL)."),
        Note::on(
            "CPU time",
            "CPU time: of the thread per activation; a boost's loops before activations, by which it learns, are in it.",
        ),
    ]);
    let mut sections = vec![Section::new(heading).with(Block::Table(table)).with(legend)];
    let said = words(&series);
    if !said.is_empty() {
        sections.push(Section::default().with(Block::said(said)));
    }
    sections
}

fn name(series: &Boost<'_>) -> String {
    match (series.subject.as_str(), &series.metrics.governor) {
        (AS_FOUND, Some(governor)) => format!("{AS_FOUND} ({})", sanitize(governor)),
        (subject, _) => sanitize(subject),
    }
}

/// What is to be said: what the boost was, and the time at each frequency.
fn words(series: &[Boost<'_>]) -> Vec<String> {
    let of = |name: &str| series.iter().find(|series| series.subject == name);
    let mut said = Vec::new();
    if let Some(boost) = of(BOOST) {
        said.push(how(boost.metrics));
        said.extend(full_speed(boost.metrics));
    }
    let states =
        series.iter().filter_map(|series| Some(format!("{}: {}", sanitize(&series.subject), states(series.metrics)?)));
    let states: Vec<String> = states.collect();
    if !states.is_empty() {
        said.push(format!("Time at each frequency, idle time included. {}.", states.join("; ")));
    }
    said
}

/// By what, how early, and what that took.
fn how(boost: &Metrics) -> String {
    let absent = || units::ABSENT.to_owned();
    let lever = boost.lever.as_deref().map_or_else(|| "an unknown lever".to_owned(), sanitize);
    let time = |ns: Option<i64>| ns.map_or_else(absent, spoken::duration);
    let share = |share: Option<f64>| share.map_or_else(absent, units::share);
    format!(
        "The boost used the {lever}, raised {} before each activation, as it learned; each raising and letting go took {}, and the speed \
         was raised for {} of the time. Learning took {} of the time.",
        time(boost.lead_ns),
        time(boost.switching_ns),
        share(boost.raised_share),
        share(boost.learning_share)
    )
}

/// Where full speed was not what it should be, or not there in time.
fn full_speed(boost: &Metrics) -> Vec<String> {
    let mut said = Vec::new();
    if let (Some(learned), Some(short)) = (boost.learned, boost.not_at_full_speed.filter(|n| *n > 0)) {
        said.push(format!(
            "Before {short} of {learned} activations that were looked at, full speed was not there in time."
        ));
    }
    let limits = boost.full_khz.zip(boost.max_khz);
    if let Some((full, max)) = limits.filter(|(full, max)| (*full as f64) < *max as f64 * SHORT_OF_LIMIT) {
        let (full, max) = (units::gigahertz(full), units::gigahertz(max));
        said.push(format!("While raised, the kernel showed {full} of {max}: another lever may do more."));
    }
    said
}

/// `1.00 GHz 93 %, 3.00 GHz 7 %`, the lowest first.
fn states(metrics: &Metrics) -> Option<String> {
    let state = |(khz, share): (&u64, &f64)| unbroken(&format!("{} {}", units::gigahertz(*khz), units::share(*share)));
    Some(metrics.residency.as_ref()?.iter().map(state).collect::<Vec<_>>().join(", "))
}
