//! The worst wake-ups, part by part, with a bar for when each part took its time.

use punctual_record::{Causes, LateWake, Run};

use crate::document::{Block, Column, Paint, Row, Section, Table};
use crate::format::units;

use super::phrase::{Why, name, part};

/// Most wake-ups, as the record has.
pub(super) const WORST: usize = 10;
/// Most parts of one, and most links of its chain.
const PARTS: usize = 40;
const LINKS: usize = 4;
/// A part below this share of the lateness has no row.
const LEAST: f64 = 0.01;
/// Letters of a bar.
const BAR: usize = 24;

/// The section; `None` without late wake-ups.
pub(super) fn section(run: &Run, causes: &Causes) -> Option<Section> {
    let mut rows = Vec::new();
    for (number, wake) in (1..).zip(causes.worst.iter().take(WORST)) {
        rows.push(Row::Label(format!("{number}  {}", title(wake))));
        rows.extend(chain(wake).map(Row::Label));
        rows.extend(parts(wake, run.host.hypervisor.is_some()));
    }
    let columns = vec![
        Column::right("from", 30),
        Column::left("part", 40),
        Column::left("lost to", Column::ALWAYS),
        Column::right("took", Column::ALWAYS),
        Column::drawn("when", 50),
    ];
    (!rows.is_empty())
        .then(|| Section::new("The worst wake-ups").with(Block::Table(Table { columns, rows, ranking: None })))
}

/// `812 µs late: redis-server (4711), epoll_wait, on CPU 1, 1.23 s after the beginning`.
pub(super) fn title(wake: &LateWake) -> String {
    let LateWake { tid, cpu, .. } = wake;
    let [thread, call] = [&wake.thread, &wake.call].map(|text| name(text));
    let [late, at] = [wake.late_ns, wake.at_ns].map(units::duration);
    format!("{late} late: {thread} ({tid}), {call}, on CPU {cpu}, {at} after the beginning")
}

/// `woken by redis-cli (12), itself 3 µs late, after 40 µs of work`. An interrupt has no thread.
fn chain(wake: &LateWake) -> impl Iterator<Item = String> {
    wake.chain.iter().take(LINKS).enumerate().map(|(i, link)| {
        let which = if i == 0 { "woken by" } else { "which was woken by" };
        let [delay, worked] = [link.delay_ns, link.worked_ns].map(units::duration);
        let who = name(&link.name);
        match link.tid {
            0 => format!("   {which} {who} after {worked} of work"),
            tid => {
                let priority = match link.inherited {
                    Some(true) => ", inherited",
                    Some(false) => ", inverted",
                    None => "",
                };
                format!("   {which} {who} ({tid}{priority}), itself {delay} late, after {worked} of work")
            }
        }
    })
}

/// The parts in the order of time, without those that took next to nothing; what these took together comes last.
fn parts(wake: &LateWake, guest: bool) -> Vec<Row> {
    let all = wake.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.ns)).max(1);
    let (mut at, mut short) = (0u64, (0u64, 0u64));
    let mut rows = Vec::new();
    for taken in &wake.parts {
        if taken.ns as f64 >= LEAST * all as f64 && rows.len() < PARTS {
            let why = Why { cause: taken.cause, culprit: taken.culprit.as_deref(), guest };
            let cells = vec![
                units::duration(at),
                part(taken.part).to_owned(),
                why.label(),
                units::duration(taken.ns),
                bar(at, taken.ns, all),
            ];
            rows.push(Row::Cells(cells, Paint::Plain));
        } else {
            short = (short.0 + 1, short.1.saturating_add(taken.ns));
        }
        at = at.saturating_add(taken.ns);
    }
    if short.0 > 0 {
        let name = units::many(short.0, "shorter part");
        let cells = vec![String::new(), String::new(), name, units::duration(short.1), String::new()];
        rows.push(Row::Cells(cells, Paint::Faint));
    }
    rows
}

/// When a part took its time, on the scale of the whole wake-up: at least one letter.
fn bar(at: u64, took: u64, all: u64) -> String {
    let place = |ns: u64| (ns as f64 / all as f64 * BAR as f64).round() as usize;
    let from = place(at).min(BAR - 1);
    let to = place(at.saturating_add(took)).clamp(from + 1, BAR);
    " ".repeat(from) + &"█".repeat(to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stands_where_the_time_went() {
        assert_eq!(bar(0, 50, 100), "████████████");
        assert_eq!(bar(50, 50, 100), format!("{}████████████", " ".repeat(12)));
        assert_eq!(bar(100, 0, 100), format!("{}█", " ".repeat(23)), "what took no time still shows");
        assert!(bar(u64::MAX, u64::MAX, 1).chars().count() <= BAR);
    }
}
