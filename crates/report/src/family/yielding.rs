//! Yielding: a table for each situation, the methods that let others run on top, and what the figures say.

use punctual_record::{Param, Quantity, Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words;

use super::Family;

mod words_on;

pub(super) const FAMILY: Family = Family { experiment: "yield", sections, advice: words_on::advice };

/// A call lets others run when it did so in at least this share of calls. Calls that never enter the scheduler are preempted during one call in
/// ten thousand at most, since a slice lasts milliseconds.
const YIELDS: f64 = 0.01;

const COLUMNS: [Column; 17] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", Column::ALWAYS),
    Column::right("n", 30),
    Column::right("lets others run", Column::ALWAYS),
    Column::right("others' CPU", 120),
    Column::right("own CPU", 40),
    Column::right("away p50", 110),
    Column::right("away p99", 60),
    Column::right("away max", 20),
    Column::right("call (loop)", 130),
    Column::right("p50", 100),
    Column::right("p99", 90),
    Column::right("max", 50),
    Column::right("user", 70),
    Column::right("system", 71),
    Column::right("switches", 65),
    Column::left("system calls", 80),
];

const CONDITIONS: &str = "conditions";
/// Columns that only make sense with competitors.
const AGAINST: [&str; 6] = ["lets others run", "others' CPU", "own CPU", "away p50", "away p99", "away max"];
/// The column that only makes sense alone.
const ALONE: &str = "call (loop)";

/// Against whom a series was measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Situation {
    competitors: i64,
    policy: String,
    kind: String,
    /// How they stand to the caller; empty: not known.
    rank: String,
}

impl Situation {
    fn of(series: &Series) -> Self {
        let text = |name: &str| text(&series.parameters, name).unwrap_or_default().to_owned();
        let competitors = words::int(series, "competitors").unwrap_or(0);
        Self {
            competitors,
            policy: text("competitor_policy"),
            kind: text("competitor_kind"),
            rank: text("competitor_rank"),
        }
    }

    /// In words, for a heading or a sentence.
    fn in_words(&self, style: &Style) -> String {
        if self.competitors == 0 {
            return "alone on its CPU".to_owned();
        }
        let plural = if self.competitors == 1 { "" } else { "s" };
        let number = units::count(self.competitors.unsigned_abs());
        let what = match self.kind.as_str() {
            "thread" => format!("competitor thread{plural}"),
            _ => format!("competitor{plural}"),
        };
        match self.policy.as_str() {
            "as found" | "" => format!("with {number} {what} on its CPU"),
            policy => format!("with {number} {what} under {} on its CPU", plain(policy, style)),
        }
    }
}

/// A method in a situation: its calls, and those of them during which a competitor ran.
#[derive(Debug, Clone, Copy)]
struct Figure<'a> {
    calls: &'a Series,
    away: Option<&'a Series>,
}

impl Figure<'_> {
    /// A result that is no distribution.
    fn outcome(&self, name: &str) -> Option<f64> {
        real(self.calls, name)
    }

    /// Share of the calls that let a competitor run; none when there was no competitor.
    fn yielded(&self) -> Option<f64> {
        self.outcome("yielded_share")
    }

    fn lets_others_run(&self) -> bool {
        self.yielded().is_some_and(|share| share >= YIELDS)
    }

    /// What a call costs, ns: in the bare loop, or, where there was none, at the median.
    fn cost_ns(&self) -> Option<f64> {
        self.outcome("bare_ns").or_else(|| self.calls.summary.p50.map(|ns| ns as f64))
    }
}

pub(super) fn real(series: &Series, name: &str) -> Option<f64> {
    match series.outcome.get(name)? {
        Param::Real(value) => Some(*value).filter(|v| v.is_finite()),
        Param::Int(value) => Some(*value as f64),
        _ => None,
    }
}

pub(super) fn text<'a>(map: &'a std::collections::BTreeMap<String, Param>, name: &str) -> Option<&'a str> {
    match map.get(name)? {
        Param::Text(text) => Some(text),
        _ => None,
    }
}

/// The situations, each with its figures, in the order alone, fewest competitors first.
fn situations<'a>(series: &[&'a Series]) -> Vec<(Situation, Vec<Figure<'a>>)> {
    let mut situations: Vec<(Situation, Vec<Figure<'a>>)> = Vec::new();
    for &calls in series.iter().filter(|s| s.quantity == Quantity::CallCost) {
        let same = |other: &&&Series| {
            other.quantity == Quantity::Away
                && other.subject == calls.subject
                && other.conditions == calls.conditions
                && other.parameters == calls.parameters
        };
        let figure = Figure { calls, away: series.iter().find(same).copied() };
        let situation = Situation::of(calls);
        match situations.iter_mut().find(|(its, _)| *its == situation) {
            Some((_, figures)) => figures.push(figure),
            None => situations.push((situation, vec![figure])),
        }
    }
    situations.sort_by(|a, b| a.0.cmp(&b.0));
    situations
}

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let situations = situations(series);
    let mut sections: Vec<Section> =
        situations.iter().map(|(situation, figures)| table_section(run, situation, figures, style)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(run, &situations, style)));
    }
    sections.extend(words_on::sections(run, &situations, style));
    sections
}

fn table_section(run: &Run, situation: &Situation, figures: &[Figure<'_>], style: &Style) -> Section {
    let first = &figures[0].calls.conditions;
    let one_set = figures.iter().all(|figure| figure.calls.conditions == *first);
    let mut heading = format!("yield {}", situation.in_words(style));
    if one_set && !first.is_empty() {
        heading.push_str(&format!(", caller under {}", conditions(run, first, style)));
    }
    let mut sorted = figures.to_vec();
    sorted.sort_by(|a, b| {
        let rank = |figure: &Figure<'_>| {
            let share = figure.outcome("competitor_cpu_share").unwrap_or(0.0);
            (!figure.lets_others_run(), if figure.lets_others_run() { -share } else { 0.0 })
        };
        let (ra, rb) = (rank(a), rank(b));
        let cost = |figure: &Figure<'_>| figure.cost_ns().unwrap_or(f64::MAX);
        ra.0.cmp(&rb.0).then(ra.1.total_cmp(&rb.1)).then(cost(a).total_cmp(&cost(b)))
    });
    let hidden = |column: &Column| {
        (one_set && column.heading == CONDITIONS)
            || (situation.competitors == 0 && AGAINST.contains(&column.heading.as_ref()))
            || (situation.competitors > 0 && column.heading == ALONE)
    };
    let keep: Vec<bool> = COLUMNS.iter().map(|column| !hidden(column)).collect();
    let row = |figure: &Figure<'_>| {
        let cells = cells(run, figure, style).into_iter().zip(&keep).filter(|(_, keep)| **keep).map(|(cell, _)| cell);
        let paint = if situation.competitors > 0 && !figure.lets_others_run() { Paint::Faint } else { Paint::Plain };
        Row::Cells(cells.collect(), paint)
    };
    let rows = sorted.iter().map(row).collect();
    let columns = COLUMNS.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(column, _)| column.clone()).collect();
    Section::new(heading).with(Block::Table(Table { columns, rows }))
}

fn cells(run: &Run, figure: &Figure<'_>, style: &Style) -> Vec<String> {
    let calls = figure.calls;
    let absent = || style.absent().to_owned();
    let duration = |ns: Option<i64>| ns.map_or_else(absent, |ns| units::duration(ns, style));
    let fine = |name: &str| figure.outcome(name).map_or_else(absent, |ns| units::duration_fine(ns, style));
    let share = |name: &str| figure.outcome(name).map_or_else(absent, units::share);
    let away =
        |pick: fn(&punctual_record::Summary) -> Option<i64>| duration(figure.away.and_then(|s| pick(&s.summary)));
    let switches = match (calls.voluntary_switches_per_op, calls.involuntary_switches_per_op) {
        (Some(own), Some(forced)) => format!("{}+{}", units::per_op(own), units::per_op(forced)),
        _ => absent(),
    };
    vec![
        plain(&calls.subject, style),
        conditions(run, &calls.conditions, style),
        units::count(calls.summary.count),
        share("yielded_share"),
        share("competitor_cpu_share"),
        share("own_cpu_share"),
        away(|s| s.p50),
        away(|s| s.p99),
        away(|s| s.max),
        fine("bare_ns"),
        duration(calls.summary.p50),
        duration(calls.summary.p99),
        duration(calls.summary.max),
        fine("user_ns_per_op"),
        fine("system_ns_per_op"),
        switches,
        text(&calls.outcome, "observed").map_or_else(absent, |observed| plain(observed, style)),
    ]
}

/// What the columns mean, each note only where its column is shown.
fn legend(run: &Run, situations: &[(Situation, Vec<Figure<'_>>)], style: &Style) -> Vec<Note> {
    let read = units::duration_fine(run.clock.read_ns, style);
    let mut notes = vec![Note::always(format!(
        "p50, p99, max: of single calls, one clock reading ({read}) contained; user, system: as the kernel divides CPU time among them."
    ))];
    if situations.iter().any(|(situation, _)| situation.competitors == 0) {
        notes.push(Note::always(
            "call (loop): cost of a call in a loop that does nothing else, no clock reading contained.",
        ));
    }
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
