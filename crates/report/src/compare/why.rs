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
    let mut shown: Vec<&CauseComparison> = compared.causes.iter().filter(|cause| differs(cause.verdict)).collect();
    let size = |cause: &CauseComparison| cause.by_ns.map_or(0.0, |by| by.value.abs());
    shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let sentence = |cause: &&CauseComparison| {
        let Range { value, low, high } = cause.by_ns?;
        let [by, low, high] = [value, low, high].map(signed_ns);
        let interval = format!("95 %: {low} to {high}");
        Some(format!(
            "{}: {by} a wake-up, {} ({interval}): {}.",
            name(cause),
            causes::part(cause.part),
            label(cause, compared)
        ))
    };
    shown.iter().take(SENTENCES).filter_map(sentence).chain(compared.not_compared.iter().cloned()).collect()
}

pub(super) fn name(cause: &CauseComparison) -> String {
    causes::call(&cause.thread, &cause.call, cause.nominal_ns)
}

fn label(cause: &CauseComparison, compared: &CausesCompared) -> String {
    causes::label(cause.cause, cause.culprit.as_deref(), compared.guest)
}

/// The section; `None` without rows.
pub(super) fn section(compared: &CausesCompared) -> Option<Section> {
    if compared.causes.is_empty() {
        return None;
    }
    let columns = Columns::new()
        .left("call", Column::ALWAYS, |cause: &&CauseComparison| name(cause))
        .left("part", 30, |cause| causes::part(cause.part).to_owned())
        .left("lost to", Column::ALWAYS, |cause| label(cause, compared))
        .fine("old", Column::ALWAYS, |cause| Some(cause.old_ns))
        .fine("new", Column::ALWAYS, |cause| Some(cause.new_ns))
        .known("change", Column::ALWAYS, |cause| cause.by_ns, |by| signed_ns(by.value))
        .known("95 %", 40, |cause| cause.by_ns, |by| format!("{} to {}", signed_ns(by.low), signed_ns(by.high)))
        .left("verdict", 20, |cause| word(cause.verdict).to_owned());
    let mut rows: Vec<&CauseComparison> = compared.causes.iter().collect();
    rows.sort_by_key(|cause| !differs(cause.verdict));
    rows.truncate(ROWS);
    let notes = vec![
        Note::always("Time lost per wake-up; the causes of a call add up to its lateness."),
        Note::always(format!(
            "The scatter between stretches of a run is the noise; the verdicts are corrected for {} causes.",
            units::count(compared.compared as u64)
        )),
    ];
    Some(Section::new("Why late").with(Block::Table(columns.plain(&rows))).with(Block::Legend(notes)))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "more",
        Verdict::Better => "less",
        Verdict::NoDifference => "no difference shown",
        Verdict::NotComparable => "too few wake-ups",
    }
}
