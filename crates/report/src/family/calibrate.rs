//! Calibration: excess of a sleep, cost of the clock, and lateness of waits corrected by both.

use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::prose::{listed, unbroken};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, under};

use super::shared::{ALWAYS, Family, Measured, measured, no_answer, no_candidates};

type Calibrated<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family =
    Family { experiment: "calibrate", sections, candidates: no_candidates, answer: no_answer };

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

/// The series of the same method and conditions with another figure.
fn beside<'a>(all: &[Calibrated<'a>], of: &Series, figure: Figure) -> Option<Calibrated<'a>> {
    let same = |s: &Calibrated<'_>| s.subject == of.subject && s.conditions == of.conditions;
    all.iter().copied().find(|s| same(s) && s.parameters.figure == figure)
}

fn found(run: &Run, adds: &[Calibrated<'_>], all: &[Calibrated<'_>]) -> Section {
    let ns = |value: f64| units::duration(value.round() as i64);
    let table = Columns::new()
        .left("method", ALWAYS, |s: &Calibrated<'_>| sanitize(&s.subject))
        .left("conditions", ALWAYS, |s| conditions(run, &s.conditions))
        .count("rounds", 30, |s| Some(s.summary.count))
        .estimate("a sleep adds (TN)", (ALWAYS, 60), |s| (s.summary.p50, s.summary.ci95.p50))
        .known(
            "p5 to p95",
            80,
            |s| s.metrics.p5_ns.zip(s.metrics.p95_ns),
            move |(low, high)| format!("{} to {}", ns(low), ns(high)),
        )
        .known("drift per s", 50, |s| s.metrics.drift_ns_per_s, |drift| format!("{drift:+.0} ns"))
        .ns("clock (TS+TE)", 90, |s| beside(all, s, Figure::ClockCosts)?.summary.p50)
        .fine("read twice", 40, |s| s.metrics.clock_read_ns.map(|ns| 2.0 * ns))
        .of(adds);
    let legend = vec![
        Note::always(
            "Fitted robustly to elapsed = (TS+TE) + X (TN + T), for X from 1 to 16 sleeps of T from 10 to 200 us.",
        ),
        Note::on(
            "clock (TS+TE)",
            "Clock: what is left of a fit whose sleeps vary by far more; read twice: the same, measured by itself.",
        ),
    ];
    Section::new("what a sleep adds").with(Block::Table(table)).with(Block::Legend(legend))
}

/// What stands for a figure in the table.
const HOW: [(Figure, &str); 3] = [
    (Figure::Plain, "as asked"),
    (Figure::Compensated, "shortened by TN"),
    (Figure::CompensatedSleeper, "the library's compensated"),
];

fn proved(run: &Run, asked: i64, proofs: &[Calibrated<'_>], adds: &[Calibrated<'_>]) -> Section {
    let columns = Columns::new()
        .left("method", ALWAYS, |(s, _): &(Calibrated<'_>, &str)| sanitize(&s.subject))
        .left("conditions", ALWAYS, |(s, _)| conditions(run, &s.conditions))
        .left("how", ALWAYS, |(_, how)| (*how).to_owned())
        .known("mean error", ALWAYS, |(s, _)| s.summary.mean, |mean| units::duration(mean.round() as i64))
        .ns("min", 50, |(s, _)| s.summary.min)
        .ns("p50", 90, |(s, _)| s.summary.p50)
        .ns("p90", 60, |(s, _)| s.summary.p90)
        .ns("p99", 80, |(s, _)| s.summary.p99)
        .share("CPU", 70, |(s, _)| s.cpu_share);
    let rows: Vec<(Calibrated<'_>, &str)> = adds
        .iter()
        .flat_map(|add| HOW.iter().filter_map(|(figure, how)| Some((beside(proofs, add, *figure)?, *how))))
        .collect();
    let too_short = adds.iter().filter(|add| beside(proofs, add, Figure::Compensated).is_none());
    let mut too_short: Vec<String> = too_short.map(|add| sanitize(&add.subject)).collect();
    let table = columns.of(&rows);
    let lead = unbroken(&units::exact(asked));
    let mut section = Section::new(format!("proof: waits of {lead}")).with(Block::Table(table)).with(Block::Legend(
        vec![Note::always(
            "Error: how long a wait took, less what was asked; negative: it was early. The library's is never early.",
        )],
    ));
    if !too_short.is_empty() {
        too_short.dedup();
        let text = format!(
            "A wait of {lead} is shorter than what {} adds, so it cannot be shortened into it. The library's hybrid sleeper spins such waits.",
            listed(&too_short, 3)
        );
        section.blocks.push(Block::Paragraph(text));
    }
    section.blocks.extend(conclusion(run, adds).map(Block::Paragraph));
    section
}

/// What the default conditions add, and the least that others do.
fn conclusion(run: &Run, adds: &[Calibrated<'_>]) -> Option<String> {
    let tn = |s: &&Calibrated<'_>| s.summary.p50;
    let first = adds.first()?;
    let least = adds.iter().filter(|s| tn(s).is_some()).min_by_key(tn)?;
    let name = |s: &Series| format!("{} {}", sanitize(&s.subject), under(&conditions(run, &s.conditions)));
    let say = |s: &Series| s.summary.p50.map(|ns| unbroken(&units::duration(ns)));
    let mut text = format!("A {} adds {}.", name(first), say(first)?);
    if least.summary.p50 < first.summary.p50 {
        text.push_str(&format!(" Least: {}, {}.", name(least), say(least)?));
    }
    Some(text)
}
