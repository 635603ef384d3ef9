//! The remedies for uneven departures: absolute deadlines, the library's pacer, spinning, the kernel, other conditions.

use punctual_record::{Experiment, Quantity, Run, Series};

use crate::family::figures::Figures;
use crate::family::shared::measured;
use crate::family::wait::candidates::conditions;
use crate::format::{grouped, sanitize, units};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use crate::family::pace::words::{Paced, task};

/// A method instead of another: what removes which cause.
struct Change {
    to: &'static str,
    from: &'static [&'static str],
    cause: &'static str,
    what: &'static str,
    program: Option<&'static str>,
    others: Option<&'static str>,
}

const RELATIVE: &[&str] = &["nanosleep", "usleep"];
const ABSOLUTE: &[&str] = &["clock_nanosleep_abs"];
const LATE: &str = "late wake-ups";

impl Change {
    const fn of(to: &'static str, what: &'static str) -> Self {
        Self { to, from: ABSOLUTE, cause: LATE, what, program: None, others: None }
    }
}

const CHANGES: [Change; 6] = [
    Change { from: RELATIVE, cause: "relative sleeps", ..Change::of("clock_nanosleep_abs", "an absolute deadline") },
    Change::of("hybrid", "punctual::Pacer"),
    Change { program: Some("events leave in batches"), ..Change::of("hybrid_batch", "punctual::Pacer in batches") },
    Change::of("spin", "spinning"),
    Change { others: Some("the queueing discipline fq"), ..Change::of("so_max_pacing_rate", "SO_MAX_PACING_RATE") },
    Change { others: Some("the queueing discipline fq or etf"), ..Change::of("so_txtime", "SO_TXTIME") },
];

/// Those of all rates.
pub(in crate::family) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let late: Vec<Paced<'a>> = measured(series, Experiment::pace)
        .into_iter()
        .filter(|s| s.subject != "receive" && s.quantity == Quantity::Lateness)
        .collect();
    grouped(&late, task).into_iter().flat_map(|(_, rows)| of_rate(run, &rows)).collect()
}

fn of_rate<'a>(run: &'a Run, rows: &[Paced<'a>]) -> Vec<Candidate<'a>> {
    let Some(first) = rows.first() else { return Vec::new() };
    let rate = first.parameters.rate_per_second;
    let mut all: Vec<Candidate<'a>> = CHANGES.iter().filter_map(|change| candidate(rows, change)).collect();
    let series: Vec<&'a Series> = rows.iter().map(|s| s.series).collect();
    all.extend(conditions(&Figures::of(run, (1e9 / rate).round() as i64, &series)));
    for candidate in &mut all {
        candidate.goal = Goal::SendEvenly;
        for trial in &mut candidate.trials {
            (trial.case, trial.name) = (rate.round() as i64, a_second);
        }
    }
    all
}

fn a_second(rate: i64) -> String {
    format!("{} a second", units::rate(rate as f64))
}

/// Under the first conditions, and by the same clock: a reading before the call is earlier than the kernel's stamp.
fn candidate<'a>(rows: &[Paced<'a>], change: &Change) -> Option<Candidate<'a>> {
    let find = |subject: &str| rows.iter().find(|s| s.subject == subject);
    let from = change.from.iter().find_map(|subject| find(subject))?;
    let to = rows.iter().find(|s| s.subject == change.to && s.conditions == from.conditions)?;
    if from.metrics.departure.is_none() || to.metrics.departure != from.metrics.departure {
        return None;
    }
    let text = |text: Option<&str>| text.map(str::to_owned);
    Some(Candidate {
        id: format!("{} instead of {}", change.to, sanitize(&from.subject)),
        goal: Goal::SendEvenly,
        cause: change.cause.to_owned(),
        what: change.what.to_owned(),
        instead_of: sanitize(&from.subject),
        trials: vec![Trial { case: 0, name: a_second, before: from.series, after: to.series }],
        price: Price { program: text(change.program), others: text(change.others), ..Price::default() },
        code: Code::of_series(&to.about, to.about.call.as_deref().map(sanitize)),
    })
}
