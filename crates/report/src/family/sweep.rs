//! Sweeps: the highest rate that each method of pacing holds.

use punctual_record::experiment::sweep::{Metrics, Parameters};
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::prose::unbroken;
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::conditions;

use super::shared::{ALWAYS, Family, Measured, measured, no_answer, no_candidates};

pub(super) const FAMILY: Family =
    Family { experiment: "sweep", sections, candidates: no_candidates, answer: no_answer };

type Swept<'a> = Measured<'a, Parameters, Metrics>;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let mut rows: Vec<Swept<'_>> = measured(series, Experiment::sweep);
    let Some(first) = rows.first() else { return Vec::new() };
    let Parameters { within_ns, to, .. } = first.parameters;
    let held = |s: &Swept<'_>| s.metrics.highest_rate_held.unwrap_or(0.0);
    rows.sort_by(|a, b| held(b).total_cmp(&held(a)));
    let table = Columns::new()
        .left("method", ALWAYS, |s: &Swept<'_>| sanitize(&s.subject))
        .left("conditions", 60, |s| conditions(run, &s.conditions))
        .right("highest rate held", ALWAYS, |s| units::rate(held(s)))
        .known("not held", 70, |s| s.metrics.rate_not_held, units::rate)
        .ns("late p50", 50, |s| s.summary.p50)
        .ns("p99", 80, |s| s.summary.p99)
        .share("CPU", 90, |s| s.cpu_share)
        .left("why not higher", 40, |s| s.metrics.why_not_higher.as_deref().map_or(units::ABSENT.to_owned(), sanitize))
        .of(&rows);
    let legend = format!(
        "Held: reached within 1 %, 99th percentile of lateness at most {}.",
        unbroken(&units::exact(*within_ns))
    );
    let mut section = Section::new(format!("highest rate held, {}", sanitize(to.as_deref().unwrap_or_default())))
        .with(Block::Table(table))
        .with(Block::Legend(vec![Note::always(legend)]));
    if let [best, .., least] = rows.as_slice() {
        let text = format!(
            "{} holds {} a second, {} {}.",
            sanitize(&best.subject),
            unbroken(&units::rate(held(best))),
            sanitize(&least.subject),
            unbroken(&units::rate(held(least)))
        );
        section.blocks.push(Block::Paragraph(text));
    }
    vec![section]
}
