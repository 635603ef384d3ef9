//! Yielding: a table for each situation, with the methods that let others run on top, and conclusions.

use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Section};
use crate::format::{sanitize, units};
use crate::naming::{conditions, under};

use situation::{Figure, Situation, situations};

use super::shared::{ALWAYS, Family, measured};

mod answer;
mod candidates;
mod situation;
mod summary;

pub(super) const FAMILY: Family =
    Family { experiment: "yield", sections, candidates: candidates::candidates, answer: answer::answer };

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let situations = situations(&measured(series, Experiment::yields));
    let mut sections: Vec<Section> =
        situations.iter().map(|(situation, figures)| table_section(run, situation, figures)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(run, &situations)));
    }
    sections.extend(summary::sections(run, &situations));
    sections
}

fn table_section<'a>(run: &'a Run, situation: &Situation, figures: &[Figure<'a>]) -> Section {
    let first = &figures[0].calls.conditions;
    let one_set = figures.iter().all(|figure| figure.calls.conditions == *first);
    let mut heading = format!("yield {}", situation.in_words());
    if one_set && !first.is_empty() {
        heading.push_str(&format!(", caller {}", under(&conditions(run, first))));
    }
    let mut sorted = figures.to_vec();
    sorted.sort_by(|a, b| {
        let rank = |figure: &Figure<'_>| {
            let share = figure.others_share().unwrap_or(0.0);
            (!figure.lets_others_run(), if figure.lets_others_run() { -share } else { 0.0 })
        };
        let (ra, rb) = (rank(a), rank(b));
        let cost = |figure: &Figure<'_>| figure.cost_ns().unwrap_or(f64::MAX);
        ra.0.cmp(&rb.0).then(ra.1.total_cmp(&rb.1)).then(cost(a).total_cmp(&cost(b)))
    });
    let columns = columns(run, one_set, situation.competitors > 0);
    let row = |figure: &Figure<'a>| {
        let paint = if situation.competitors > 0 && !figure.lets_others_run() { Paint::Faint } else { Paint::Plain };
        columns.row(figure, paint)
    };
    let rows = sorted.iter().map(row).collect();
    Section::new(heading).with(Block::Table(columns.table(rows)))
}

/// The columns, with those that have something to say where there are competitors or where there are none.
fn columns<'a>(run: &'a Run, one_set: bool, against: bool) -> Columns<'a, Figure<'a>> {
    Columns::new()
        .left("method", ALWAYS, |s: &Figure<'_>| sanitize(&s.calls.subject))
        .left("conditions", ALWAYS, |s| conditions(run, &s.calls.conditions))
        .only_if(!one_set)
        .count("n", 30, |s| Some(s.calls.summary.count))
        .when(against, |columns| {
            columns
                .share("lets others run", ALWAYS, |s| s.calls.metrics.yielded_share)
                .share("others' CPU", 120, Figure::others_share)
                .share("own CPU", 40, |s| s.calls.metrics.own_cpu_share)
                .ns("away p50", 110, |s| s.away?.summary.p50)
                .ns("away p99", 60, |s| s.away?.summary.p99)
                .ns("away max", 20, |s| s.away?.summary.max)
        })
        .fine("call (loop)", 130, |s| s.calls.metrics.bare_ns)
        .only_if(!against)
        .ns("p50", 100, |s| s.calls.summary.p50)
        .ns("p99", 90, |s| s.calls.summary.p99)
        .ns("max", 50, |s| s.calls.summary.max)
        .when(!against, |columns| {
            columns
                .fine("CPU (loop)", 80, |s| s.calls.metrics.bare_cpu_ns)
                .fine("user", 70, |s| s.calls.metrics.user_ns_per_op)
                .fine("system", 71, |s| s.calls.metrics.system_ns_per_op)
        })
        .switches("switches", 65, |s| (s.calls.voluntary_switches_per_op, s.calls.involuntary_switches_per_op))
        .left("system calls", 80, |s| s.calls.metrics.observed.as_deref().map_or(units::ABSENT.to_owned(), sanitize))
}

/// What the columns mean, each note only where its column is shown.
fn legend(run: &Run, situations: &[(Situation, Vec<Figure<'_>>)]) -> Vec<Note> {
    let read = units::duration_fine(run.clock.read_ns);
    let mut notes =
        vec![Note::always(format!("p50, p99, max: of single calls, one clock reading ({read}) contained."))];
    if situations.iter().any(|(situation, _)| situation.competitors == 0) {
        notes.push(Note::always(
            "call (loop): cost of a call in a loop that does nothing else, no clock reading contained.",
        ));
    }
    notes.push(Note::on("CPU (loop)", "CPU (loop): CPU time of such a call, by the thread's CPU clock."));
    notes.push(Note::on(
        "user",
        "user, system: its parts, to within 20 % of their sum; the kernel samples them at its ticks. Absent where the loop met too few.",
    ));
    if situations.iter().any(|(situation, _)| situation.competitors > 0) {
        notes.push(Note::always(
            "lets others run: share of the calls during which a competitor made progress of its own; away: how long these calls took.",
        ));
        notes.push(Note::on("others' CPU", "others' CPU: share of the CPU that all competitors together had."));
    }
    notes.push(Note::on(
        "switches",
        "switches: times per call that the caller gave up the CPU + was preempted; a yield counts as the latter.",
    ));
    notes.push(Note::on("system calls", "system calls: as seen here, by tracing one call."));
    notes
}
