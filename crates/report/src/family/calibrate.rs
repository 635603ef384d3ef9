//! Calibration: excess of a sleep, cost of the clock, and lateness of waits corrected by both.

use punctual_record::experiment::calibrate::Figure;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Item, Note, Section};
use crate::format::{listed, sanitize, spoken, units};
use crate::naming::conditions;

use super::shared::{ALWAYS, Family, measured};

mod answer;
mod candidates;
mod proof;

use answer::{HOW, clock, name, proof_columns};
use proof::{Calibrated, EARLY, beside};

pub(super) const FAMILY: Family =
    Family { experiment: "calibrate", sections, candidates: candidates::candidates, answer: answer::answer };

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::calibrate);
    let of = |wanted| series.iter().copied().filter(move |s| s.parameters.figure == wanted);
    let adds: Vec<Calibrated<'_>> = of(Figure::SleepAdds).collect();
    let mut sections = Vec::new();
    if !adds.is_empty() {
        sections.push(found(run, &adds, &series));
    }
    let proofs: Vec<Calibrated<'_>> = series.iter().copied().filter(|s| s.parameters.asked_ns.is_some()).collect();
    if let Some(asked) = proofs.first().and_then(|s| s.parameters.asked_ns) {
        sections.push(proved(run, asked, &proofs, &adds));
    }
    sections
}

fn found(run: &Run, adds: &[Calibrated<'_>], all: &[Calibrated<'_>]) -> Section {
    let table = Columns::new()
        .left("method", ALWAYS, |s: &Calibrated<'_>| sanitize(&s.subject))
        .left("conditions", ALWAYS, |s| conditions(run, &s.conditions))
        .count("rounds", 30, |s| Some(s.summary.count))
        .estimate("a sleep adds (TN)", (ALWAYS, 60), |s| (s.summary.p50, s.summary.ci95.p50))
        .known(
            "p5 to p95",
            80,
            |s| s.metrics.p5_ns.zip(s.metrics.p95_ns),
            move |(low, high)| format!("{} to {}", units::duration(low), units::duration(high)),
        )
        .known("drift per s", 50, |s| s.metrics.drift_ns_per_s, |drift| format!("{drift:+.0} ns"))
        .estimate("clock (TS+TE)", (90, 55), |s| {
            let costs = beside(all, s, Figure::ClockCosts);
            (costs.and_then(|s| s.summary.p50), costs.and_then(|s| s.summary.ci95.p50))
        })
        .fine("two readings", 40, |s| s.metrics.clock_read_ns.map(|ns| 2.0 * ns))
        .of(adds);
    let legend = vec![
        Note::always(
            "Fitted robustly to elapsed = (TS+TE) + X (TN + T), for X from 1 to 16 sleeps of T from 10 to 200 us.",
        ),
        Note::on(
            "clock (TS+TE)",
            "Clock: the constant of the fit. A negative one is the fit's error; two readings: the same, measured by itself.",
        ),
    ];
    // The table has the interval of each; a negative one also has a word.
    let negative = |add: &&Calibrated<'_>| {
        beside(all, add.series, Figure::ClockCosts).is_some_and(|costs| costs.summary.p50.is_some_and(|ns| ns < 0))
    };
    let said: Vec<String> = adds
        .iter()
        .filter(negative)
        .filter_map(|add| Some(format!("{}: {}", name(run, add), clock(all, add)?)))
        .collect();
    let mut section = Section::new("what a sleep adds").with(Block::Table(table)).with(Block::Legend(legend));
    if !said.is_empty() {
        section.blocks.push(Block::Items(said.into_iter().map(Item::from).collect()));
    }
    section
}

fn proved(run: &Run, asked: i64, proofs: &[Calibrated<'_>], adds: &[Calibrated<'_>]) -> Section {
    let columns = Columns::new().left("method", ALWAYS, |(s, _): &(Calibrated<'_>, &str)| sanitize(&s.subject)).left(
        "conditions",
        ALWAYS,
        |(s, _)| conditions(run, &s.conditions),
    );
    let rows: Vec<(Calibrated<'_>, &str)> = adds
        .iter()
        .flat_map(|add| HOW.iter().filter_map(|(figure, how)| Some((beside(proofs, add, *figure)?, *how))))
        .collect();
    let exceeds = |add: &&Calibrated<'_>| add.summary.p50.is_some_and(|ns| ns >= asked);
    let too_short = adds.iter().filter(exceeds);
    let mut too_short: Vec<String> = too_short.map(|add| sanitize(&add.subject)).collect();
    let lead = spoken::exact(asked);
    let [low, high] = [EARLY.start(), EARLY.end()].map(|share| spoken::share(*share));
    let legend = format!(
        "Error: how long a wait took, less what was asked; negative: it was early. The library's is never early. \
                  Of waits shortened by an exact TN half are early. It works where {low} to {high} are and the interval of \
                  the mean error lies within half of TN. Measured again: before each batch of waits, on sleeps as long as theirs."
    );
    let mut section = Section::new(format!("proof: waits of {lead}"))
        .with(Block::Table(proof_columns(columns).of(&rows)))
        .with(Block::Legend(vec![Note::always(legend)]));
    if !too_short.is_empty() {
        too_short.dedup();
        let text = format!(
            "A wait of {lead} is shorter than what {} adds, so it cannot be shortened into it. The library's hybrid sleeper spins such waits.",
            listed(&too_short, 3)
        );
        section.blocks.push(Block::Paragraph(text));
    }
    section
}
