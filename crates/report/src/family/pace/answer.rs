//! Which methods hold the rate, which is least late, and how many events a sleep lets through.

use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Columns, Table};
use crate::family::shared::{ALWAYS, measured};
use crate::format::{grouped, sanitize, units};
use crate::naming;
use crate::verdict::{Advice, Answer};

use super::words::{self, Paced, task};

/// The answer for the first rate that was sent at.
pub(in crate::family) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let late: Vec<Paced<'_>> = measured(series, Experiment::pace)
        .into_iter()
        .filter(|s| s.subject != "receive" && s.quantity == Quantity::Lateness)
        .collect();
    let Some((_, rows)) = grouped(&late, task).into_iter().next() else { return Answer::default() };
    let rate = rows[0].parameters.rate_per_second;
    let sentences = words::kept(run, rate, &rows).into_iter().chain(words::ceiling(run, rate, &rows)).collect();
    Answer { table: Some(table(run, &rows)), ..Answer::of(sentences) }
}

fn table(run: &Run, rows: &[Paced<'_>]) -> Table {
    Columns::new()
        .left("method", ALWAYS, |s: &Paced<'_>| sanitize(&s.subject))
        .left("conditions", 95, |s| naming::conditions(run, &s.conditions))
        .known("a second", ALWAYS, |s| s.metrics.rate_reached, units::rate)
        .ns("late p50", ALWAYS, |s| s.summary.p50)
        .ns("p99", ALWAYS, |s| s.summary.p99)
        .share("CPU", 90, |s| s.cpu_share)
        .of(rows)
}
