//! The waits of a program by call site: a table as that of watched programs, and what the waits cost.

use punctual_record::{Run, Series};

use crate::document::{Block, Note, Section};

use super::shared::Family;
use site::sites;
use table::table;

mod answer;
mod site;
mod table;

pub(super) const FAMILY: Family = Family { answer: answer::answer, ..Family::of("calls", sections) };

/// Most rows of the report.
const ROWS: usize = 300;

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let sites = sites(series);
    if sites.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![
        Note::always("Calls through the C library, by the place that makes them. n: calls that began."),
        Note::on(
            "late p50",
            "late: from the end of the time asked to the return of the call, of the calls whose time was over; percentiles to 2\u{a0}%, min and max exact.",
        ),
        Note::on(
            "found nothing",
            "found nothing: calls without waiting that found nothing to do; event: calls that one ended, or that found one.",
        ),
        Note::on(
            "CPU",
            "CPU: mean CPU time of a call, from one wait in 8 and one look in 64. It contains the reading of a clock.",
        ),
    ];
    if sites.iter().any(|site| site.metrics().let_run_share.is_some()) {
        let text = "let run: yields during which another thread ran, from one yield in 64.";
        notes.push(Note::on("let run", text));
    }
    vec![Section::new("Waits by call site").with(Block::Table(table(&sites, true, ROWS))).with(Block::Legend(notes))]
}
