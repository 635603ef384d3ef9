//! The boost: deadlines met and their price, with the machine as found, with boosted activations, and at permanent full
//! speed. Deadlines met are tested on rounds, one series against another.

use punctual_record::experiment::boost::{Metrics, Parameters};
use punctual_record::remedy::Value;
use punctual_record::{Experiment, Remedy, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::noise::{self, FREEDOM, MIN_ROUNDS};
use crate::evidence::{LEVEL, Outcome, Shift};
use crate::family::shared::{ALWAYS, Family, Measured, measured};
use crate::format::naming::{AS_FOUND, under};
use crate::format::{listed, spoken, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial};

pub(super) const FAMILY: Family =
    Family { experiment: "boost", title: "Speed for activations", sections, candidates, answer };

/// A reported full speed this much below the upper limit is worth a remark: 5 %.
const SHORT_OF_LIMIT: f64 = 0.95;

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::boost);
    let Some(first) = series.first() else { return Vec::new() };
    let on = first.metrics.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let heading = format!(
        "boost: {} of fixed work every {}{on}, due after {}, {}",
        units::exact(first.parameters.work_ns),
        units::exact(first.parameters.period_ns),
        units::exact(first.parameters.deadline_ns),
        under(&first.conditions)
    );
    let table = table(&series);
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

fn table(series: &[Boost<'_>]) -> Table {
    Columns::new()
        .left("speed", ALWAYS, name)
        .right("met", ALWAYS, met)
        .estimate("p50", (ALWAYS, 40), |series: &Boost<'_>| (series.summary.p50, series.summary.ci95.p50))
        .summary([("p99", 60), ("max", ALWAYS)], |series| Some(&series.summary))
        .known("clock", 75, |series| series.metrics.mean_khz, units::gigahertz)
        .known("power", 70, |series| series.metrics.power_mw, |mw| format!("{:.2} W", mw as f64 / 1e3))
        .known("CPU time", 50, |series| series.cpu_ns_per_op, units::duration)
        .plain(series)
}

fn name(series: &Boost<'_>) -> String {
    match (series.subject.as_str(), &series.metrics.governor) {
        (AS_FOUND, Some(governor)) => format!("{AS_FOUND} ({})", governor),
        (subject, _) => subject.to_owned(),
    }
}

/// What is to be said: what the boost was, and the time at each frequency.
fn words(series: &[Boost<'_>]) -> Vec<String> {
    let series_of = |name: &str| series.iter().find(|series| series.subject == name);
    let mut said = Vec::new();
    if let Some(boost) = series_of(BOOST) {
        said.push(how(boost.metrics));
        said.extend(full_speed(boost.metrics));
    }
    let states = series.iter().filter_map(|series| Some(format!("{}: {}", series.subject, states(series.metrics)?)));
    let states: Vec<String> = states.collect();
    if !states.is_empty() {
        said.push(format!("Time at each frequency, idle time included. {}.", states.join("; ")));
    }
    said
}

/// By what, how early, and what that took.
fn how(boost: &Metrics) -> String {
    let lever = boost.lever.clone().unwrap_or_else(|| "an unknown lever".to_owned());
    let time = |ns: Option<i64>| units::or_absent(ns, spoken::duration);
    let share = |share: Option<f64>| units::or_absent(share, units::share);
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

/// Deadlines with the boost and without, and its price.
fn answer(_: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let all = measured(series, Experiment::boost);
    let series_of = |name: &str| all.iter().find(|series| series.subject == name);
    let Some(found) = series_of(AS_FOUND) else { return Answer::default() };
    let Some(boost) = series_of(BOOST) else {
        let none = format!("No boost could be tried here. As found, {} deadlines are met.", met(found));
        return Answer { table: Some(table(&all)), ..Answer::in_words(vec![none]) };
    };
    let (with, without) = (met(boost), met(found));
    let mut sentences = vec![match compared(found, boost) {
        Outcome::Better => format!("The boost meets more deadlines: {with}, {without} without it."),
        Outcome::Worse => format!("The boost meets fewer deadlines: {with}, {without} without it."),
        Outcome::NoDifference => {
            format!("No difference in deadlines met is shown: {with} with the boost, {without} without it.")
        }
        Outcome::NotTested => {
            format!("Deadlines met: {with} with the boost, {without} without it. Fewer than 5 rounds: not tested.")
        }
    }];
    sentences
        .extend(series_of(PERFORMANCE).map(|full| format!("Under performance all the time, {} are met.", met(full))));
    let price = paid(found, boost);
    if !price.is_empty() {
        sentences.push(format!("Price of the boost: {}.", listed(&price, usize::MAX)));
    }
    Answer { table: Some(table(&all)), ..Answer::in_words(sentences) }
}

/// What a boost costs beside CPU time, as far as the machine counts it.
fn paid(found: &Boost<'_>, boost: &Boost<'_>) -> Vec<String> {
    let raised = boost.metrics.raised_share.map(|share| format!("raised {} of the time", spoken::share(share)));
    let cpu = |series: &Boost<'_>| series.cpu_ns_per_op.map(|ns| ns.round() as i64);
    let cpu = cpu(found).zip(cpu(boost)).map(|(before, after)| {
        format!("{} of CPU time an activation, {} without it", spoken::duration(after), spoken::duration(before))
    });
    raised.into_iter().chain(power(found, boost)).chain(cpu).collect()
}

/// `4.20 W instead of 3.10 W`.
fn power(before: &Boost<'_>, after: &Boost<'_>) -> Option<String> {
    let watts = |mw: i64| unbroken(&format!("{:.2} W", mw as f64 / 1e3));
    let (before, after) = (before.metrics.power_mw?, after.metrics.power_mw?);
    Some(format!("{} instead of {}", watts(after), watts(before)))
}

/// The boost, and full speed all the time, instead of the machine as found.
fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let all = measured(series, Experiment::boost);
    let series_of = |name: &str| all.iter().find(|series| series.subject == name).copied();
    let Some(found) = series_of(AS_FOUND) else { return Vec::new() };
    let one = |after: Boost<'a>, what: &str, price: Price, code: Code| {
        let instead_of = found.metrics.governor.clone().unwrap_or_else(|| AS_FOUND.to_owned());
        let trial = Trial { case: found.parameters.work_ns, name: case, before: found.series, after: after.series };
        let candidate = Candidate::instead(Goal::SpeedUp, what.to_owned(), instead_of, trial);
        Candidate { id: what.to_owned(), cause: "CPU frequency".to_owned(), price, code, ..candidate }
    };
    let boost = series_of(BOOST).map(|boost| {
        let price = Price {
            // A clamp of the own thread needs none.
            privilege: (boost.metrics.lever.as_deref() != Some("utilisation clamp")).then(|| "root".to_owned()),
            energy: power(&found, &boost),
            program: boost
                .metrics
                .raised_share
                .map(|share| format!("raises the clock {} of the time", spoken::share(share))),
            ..Price::default()
        };
        let rust = "let activation = boost.wait_until(at)?; /* work */ boost.done(activation, deadline)?;".to_owned();
        one(boost, "punctual::cpufreq::Boost", price, Code { rust: Some(rust), ..Code::default() })
    });
    let is_another = |_: &Boost<'_>| found.metrics.governor.as_deref() != Some(PERFORMANCE);
    let full = series_of(PERFORMANCE).filter(is_another).map(|full| {
        let Remedy { name, price, code, .. } = Remedy::for_value(&Value::Governor(PERFORMANCE.to_owned()));
        let energy = power(&found, &full).or(price.energy);
        one(full, &name, Price { energy, ..price }, code)
    });
    boost.into_iter().chain(full).collect()
}

fn case(work_ns: i64) -> String {
    format!("for {} of work", units::exact(work_ns))
}

/// A series of boosts.
type Boost<'a> = Measured<'a, Parameters, Metrics>;

/// The subjects, by their names in the record.
const BOOST: &str = "boost";
const PERFORMANCE: &str = "performance";

/// `99 of 100`.
fn met(series: &Boost<'_>) -> String {
    format!("{} of {}", units::count(series.metrics.met.unwrap_or(0)), units::count(series.summary.count))
}

/// Whether the second series meets more deadlines than the first (`Better`), fewer, or neither is shown.
fn compared(before: &Boost<'_>, after: &Boost<'_>) -> Outcome {
    let (before, after) = (shares(before), shares(after));
    let differences: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after.0 - before.0).collect();
    let Some(wandering) = noise::wandering(&differences).filter(|_| differences.len() >= MIN_ROUNDS) else {
        return Outcome::NotTested;
    };
    // One deadline of a round is the least that can differ.
    let least = before.iter().chain(&after).map(|(_, count)| 1.0 / *count as f64).fold(0.0, f64::max);
    let by = differences.iter().sum::<f64>() / differences.len() as f64;
    let error = (wandering + least * least).sqrt();
    let shift = Shift { from: 0.0, by, error, freedom: FREEDOM, pair: error * error };
    Outcome::judged(shift.probability() < LEVEL && by.abs() > error, by > 0.0)
}

/// Share of the deadlines that each round met, and their number; nothing without the single responses.
fn shares(series: &Boost<'_>) -> Vec<(f64, usize)> {
    let periods = usize::try_from(series.parameters.periods).ok().filter(|periods| *periods > 0);
    let samples = series.series.samples.as_deref().unwrap_or_default();
    let met = |round: &[i64]| round.iter().filter(|ns| **ns <= series.parameters.deadline_ns).count();
    let share = |round: &[i64]| (met(round) as f64 / round.len() as f64, round.len());
    periods.map_or_else(Vec::new, |periods| samples.chunks(periods).map(share).collect())
}
