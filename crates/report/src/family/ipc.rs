//! Passing messages: a table for each kind of traffic and each place, the quickest mechanism on top, a map where every pair of CPUs was
//! measured, and what the figures say.

use punctual_record::{Param, Quantity, Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words;

use super::Family;

mod map;
mod words_on;

pub(super) const FAMILY: Family = Family { experiment: "ipc", sections, advice: words_on::advice };

const COLUMNS: [Column; 19] = [
    Column::left("mechanism", Column::ALWAYS),
    Column::left("receive", 75),
    Column::left("conditions", Column::ALWAYS),
    Column::right("n", 40),
    Column::right("min", 45),
    Column::right("p50", Column::ALWAYS),
    Column::joined("[95 %]", 60),
    Column::right("p90", 20),
    Column::right("p99", Column::ALWAYS),
    Column::joined("[95 %]", 30),
    Column::right("p99.9", 50),
    Column::right("max", 90),
    Column::right("messages/s", 100),
    Column::right("MB/s", 95),
    Column::right("CPU sender", 70),
    Column::right("CPU receiver", 71),
    Column::right("sw. sender", 25),
    Column::right("sw. receiver", 26),
    Column::right("faults", 110),
];

/// Kinds of traffic in the order in which they are told; others follow.
const MODES: [&str; 4] = ["ping-pong", "sporadic", "rate", "saturated"];
/// From so many pairs of CPUs on they make a map rather than a table each.
const PAIRS_OF_A_MAP: usize = 3;

/// What a table is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Traffic {
    order: usize,
    mode: String,
    interval_ns: Option<i64>,
    pair: Option<(i64, i64)>,
    place: String,
}

impl Traffic {
    fn of(series: &Series) -> Self {
        let mode = text(series, "mode").to_owned();
        let order = MODES.iter().position(|known| *known == mode).unwrap_or(MODES.len());
        let pair = words::int(series, "sender_cpu").zip(words::int(series, "receiver_cpu"));
        Self {
            order,
            mode,
            interval_ns: words::int(series, "interval_ns"),
            pair,
            place: text(series, "place").to_owned(),
        }
    }

    /// The traffic in words, without the place.
    fn mode_in_words(&self, style: &Style) -> String {
        let every = || self.interval_ns.map_or(String::new(), |ns| units::exact(ns, style));
        match self.mode.as_str() {
            "ping-pong" => "ping-pong: there and back".to_owned(),
            "saturated" => "saturated: one way, as fast as they are taken".to_owned(),
            "sporadic" => format!("sporadic: one way, one every {}", every()),
            "rate" => format!("at a rate: one way, one due every {}", every()),
            other => plain(other, style),
        }
    }

    fn place_in_words(&self, style: &Style) -> String {
        match self.pair {
            Some((a, b)) if a == b => format!("both on CPU {a}"),
            Some((a, b)) => format!("from CPU {a} to CPU {b}"),
            None => plain(&self.place, style),
        }
    }
}

/// A parameter that is a word; empty where there is none.
fn text<'a>(series: &'a Series, name: &str) -> &'a str {
    match series.parameters.get(name) {
        Some(Param::Text(text)) => text,
        _ => "",
    }
}

/// A figure among the outcomes.
fn outcome(series: &Series, name: &str) -> Option<f64> {
    match series.outcome.get(name) {
        Some(Param::Real(x)) => Some(*x),
        Some(Param::Int(n)) => Some(*n as f64),
        _ => None,
    }
}

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let mut groups: Vec<(Traffic, Vec<&Series>)> = Vec::new();
    for &series in series {
        let traffic = Traffic::of(series);
        match groups.iter_mut().find(|(its, _)| *its == traffic) {
            Some((_, rows)) => rows.push(series),
            None => groups.push((traffic, vec![series])),
        }
    }
    groups.sort_by(|a, b| a.0.cmp(&b.0));
    let mut pairs: Vec<_> = groups.iter().filter_map(|(traffic, _)| traffic.pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut sections: Vec<Section> = if pairs.len() >= PAIRS_OF_A_MAP {
        map::sections(run, series, style)
    } else {
        groups.iter().map(|(traffic, rows)| table_section(run, traffic, rows, style)).collect()
    };
    if let Some(last) = sections.last_mut().filter(|_| pairs.len() < PAIRS_OF_A_MAP) {
        last.blocks.push(Block::Legend(legend(series, style)));
    }
    sections.extend(words_on::sections(run, series, style));
    sections
}

fn table_section(run: &Run, traffic: &Traffic, series: &[&Series], style: &Style) -> Section {
    let one_set = series.iter().all(|its| its.conditions == series[0].conditions);
    let mut heading = format!("ipc {}; {}", traffic.mode_in_words(style), traffic.place_in_words(style));
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!("; under {}", conditions(run, &series[0].conditions, style)));
    }
    let mut table = Table { columns: COLUMNS.to_vec(), rows: rows(run, traffic, series, style) };
    drop_column(&mut table, "conditions", one_set);
    drop_column(&mut table, "receive", series.iter().all(|s| text(s, "receive") == "block"));
    drop_column(&mut table, "faults", series.iter().all(|s| faults(s) == 0.0));
    Section::new(heading).with(Block::Table(table))
}

fn drop_column(table: &mut Table, heading: &str, needless: bool) {
    let at = table.columns.iter().position(|column| column.heading == heading);
    let Some(at) = at.filter(|_| needless) else { return };
    table.columns.remove(at);
    for row in &mut table.rows {
        if let Row::Cells(cells, _) = row {
            cells.remove(at);
        }
    }
}

/// By size; in each the quickest first, or with saturated traffic the one that passes most.
fn rows(run: &Run, traffic: &Traffic, series: &[&Series], style: &Style) -> Vec<Row> {
    let mut sorted = series.to_vec();
    let size = |series: &Series| words::int(series, "size").unwrap_or(0);
    sorted.sort_by(|a, b| {
        let by_size = size(a).cmp(&size(b));
        let late = |series: &Series| series.summary.p50.unwrap_or(i64::MAX);
        let rate = |series: &Series| outcome(series, "per_second").unwrap_or(0.0);
        by_size.then_with(|| match traffic.mode.as_str() {
            "saturated" => rate(b).total_cmp(&rate(a)),
            _ => late(a).cmp(&late(b)),
        })
    });
    let mut rows = Vec::new();
    let mut group = None;
    for series in sorted {
        let its = size(series);
        if group != Some(its) {
            rows.push(Row::Label(format!("{}:", bytes(its))));
        }
        group = Some(its);
        rows.push(Row::Cells(cells(run, series, style), Paint::Plain));
    }
    rows
}

/// Messages that did not arrive once, whole and in order.
fn faults(series: &Series) -> f64 {
    ["lost", "doubled", "torn", "reordered"].iter().filter_map(|name| outcome(series, name)).sum()
}

fn cells(run: &Run, series: &Series, style: &Style) -> Vec<String> {
    let summary = &series.summary;
    let absent = || style.absent().to_owned();
    let figure = |ns: Option<i64>| ns.map_or_else(absent, |ns| units::duration(ns, style));
    let interval = |figure: Option<i64>, interval| match (figure, interval) {
        (Some(figure), Some(interval)) => units::interval_like(interval, figure),
        _ => String::new(),
    };
    let per_second = outcome(series, "per_second");
    let size = words::int(series, "size");
    // The process that measures receives; in ping-pong it begins.
    let mine = (series.cpu_ns_per_op, series.voluntary_switches_per_op, series.involuntary_switches_per_op);
    let its = |name| outcome(series, name);
    let theirs = (its("peer_cpu_ns"), its("peer_voluntary_switches"), its("peer_involuntary_switches"));
    let (sender, receiver) = if series.quantity == Quantity::RoundTrip { (mine, theirs) } else { (theirs, mine) };
    let cpu = |ns: Option<f64>| ns.map_or_else(absent, |ns| units::duration_fine(ns, style));
    let switches = |own: Option<f64>, forced: Option<f64>| match (own, forced) {
        (Some(own), Some(forced)) => format!("{}+{}", units::per_op(own), units::per_op(forced)),
        _ => absent(),
    };
    vec![
        plain(&series.subject, style),
        plain(text(series, "receive"), style),
        conditions(run, &series.conditions, style),
        units::count(summary.count),
        figure(summary.min),
        figure(summary.p50),
        interval(summary.p50, summary.ci95.p50),
        figure(summary.p90),
        figure(summary.p99),
        interval(summary.p99, summary.ci95.p99),
        figure(summary.p999),
        figure(summary.max),
        per_second.map_or_else(absent, |n| units::count(n.round() as u64)),
        per_second.zip(size).map_or_else(absent, |(n, size)| megabytes(n * size as f64)),
        cpu(sender.0),
        cpu(receiver.0),
        switches(sender.1, sender.2),
        switches(receiver.1, receiver.2),
        units::count(faults(series) as u64),
    ]
}

/// Bytes a second in MB/s (10^6) with three digits.
fn megabytes(bytes_per_second: f64) -> String {
    let mb = bytes_per_second / 1e6;
    let decimals = match mb {
        _ if mb >= 99.95 => 0,
        _ if mb >= 9.995 => 1,
        _ if mb >= 0.9995 => 2,
        _ => 3,
    };
    format!("{mb:.decimals$}")
}

/// A size: `64 B`, `16 KiB`, `1 MiB`.
fn bytes(size: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| size >= *unit && size % unit == 0);
    unit.map_or_else(|| format!("{size} B"), |(unit, name)| format!("{} {name}", size / unit))
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[&Series], style: &Style) -> Vec<Note> {
    let interval = "[ ]: the true percentile lies there with 95 % confidence, in the unit of the figure before it.";
    let mut notes = vec![Note::always(
        "One way: from the beginning of the call that sends (at a rate: from when the message was due) to the return of the call \
         that receives, in the other process. Ping-pong: there and back, not halved.",
    )];
    notes.push(Note::on("p50 [95 %]", interval.replace("[ ]", "[\u{a0}]").replace("95 %", "95\u{a0}%")));
    notes.push(Note::on("messages/s", "messages/s: in ping-pong, round trips."));
    notes.push(Note::on("CPU sender", "CPU: time per message, what the measurement itself takes included."));
    let switches = "sw.: times per message that the process gave up the CPU + was preempted.";
    notes.push(Note::on("sw. sender", switches));
    if series.iter().any(|s| faults(s) > 0.0) {
        notes.push(Note::on("faults", "faults: messages lost, doubled, torn or out of order."));
    }
    let lacks = |series: &&Series| {
        let summary = &series.summary;
        [summary.p50, summary.p90, summary.p99, summary.p999].contains(&None)
    };
    if series.iter().any(lacks) {
        notes.push(Note::always(format!("{}: too few samples, or not known.", style.absent())));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_as_people_read_them() {
        assert_eq!(
            (bytes(8), bytes(65_536), bytes(1 << 20), bytes(1500)),
            ("8 B".into(), "64 KiB".into(), "1 MiB".into(), "1500 B".into())
        );
        assert_eq!(megabytes(1.5e9), "1500");
        assert_eq!(megabytes(12_345_678.0), "12.3");
        assert_eq!(megabytes(640.0), "0.001");
    }
}
