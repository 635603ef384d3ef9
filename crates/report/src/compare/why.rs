//! The causes of both sides in words and as a table.

use crate::causes;
use crate::compare::causes::{CauseComparison, CausesCompared};
use crate::compare::outcome::{Range, Verdict};
use crate::compare::words::{differs, signed_ns};
use crate::document::{Block, Column, Columns, Note, Section};
use crate::format::units;

/// Most sentences, and most rows.
const SENTENCES: usize = 4;

const ROWS: usize = 300;

/// `redis-server, epoll_wait: +8.00 µs a wake-up in the run queue (95 %: +6.10 µs to +9.90 µs): kworker/1:2 ran.`
pub(super) fn sentences(compared: &CausesCompared) -> Vec<String> {
    let mut shown: Vec<&CauseComparison> = compared.causes.iter().filter(|its| differs(its.verdict)).collect();
    let size = |its: &CauseComparison| its.by_ns.map_or(0.0, |by| by.value.abs());
    shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let sentence = |its: &&CauseComparison| {
        let Range { value, low, high } = its.by_ns?;
        let [by, low, high] = [value, low, high].map(signed_ns);
        let interval = format!("95 %: {low} to {high}");
        Some(format!(
            "{}: {by} a wake-up, {} ({interval}): {}.",
            name(its),
            causes::part(its.part),
            label(its, compared)
        ))
    };
    shown.iter().take(SENTENCES).filter_map(sentence).chain(compared.not_compared.iter().cloned()).collect()
}

pub(super) fn name(its: &CauseComparison) -> String {
    causes::call(&its.thread, &its.call, its.nominal_ns)
}

fn label(its: &CauseComparison, compared: &CausesCompared) -> String {
    causes::label(its.cause, its.culprit.as_deref(), compared.guest)
}

/// The section; `None` without rows.
pub(super) fn section(compared: &CausesCompared) -> Option<Section> {
    if compared.causes.is_empty() {
        return None;
    }
    let columns = Columns::new()
        .left("call", Column::ALWAYS, |its: &&CauseComparison| name(its))
        .left("part", 30, |its| causes::part(its.part).to_owned())
        .left("lost to", Column::ALWAYS, |its| label(its, compared))
        .fine("old", Column::ALWAYS, |its| Some(its.old_ns))
        .fine("new", Column::ALWAYS, |its| Some(its.new_ns))
        .known("change", Column::ALWAYS, |its| its.by_ns, |by| signed_ns(by.value))
        .known("95 %", 40, |its| its.by_ns, |by| format!("{} to {}", signed_ns(by.low), signed_ns(by.high)))
        .left("verdict", 20, |its| word(its.verdict).to_owned());
    let mut rows: Vec<&CauseComparison> = compared.causes.iter().collect();
    rows.sort_by_key(|its| !differs(its.verdict));
    rows.truncate(ROWS);
    let notes = vec![
        Note::always("Time lost per wake-up; the causes of a call add up to its lateness."),
        Note::always(format!(
            "The scatter between stretches of a run is the noise; the verdicts are corrected for {} causes.",
            units::count(compared.compared as u64)
        )),
    ];
    Some(Section::new("Why late").with(Block::Table(columns.of(&rows))).with(Block::Legend(notes)))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "more",
        Verdict::Better => "less",
        Verdict::NoDifference => "no difference shown",
        Verdict::NotComparable => "too few wake-ups",
    }
}
