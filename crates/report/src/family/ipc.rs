//! Message passing: a table for each kind of traffic and each place with the fastest mechanism on top, a map if every
//! pair of CPUs was measured, and conclusions.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::experiment::ipc::{Metrics, Mode, Parameters, Placement, Receive};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Row, Section};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, under};

use super::shared::{
    ALWAYS, Family, Measured, absent_note, grouped, interval_note, measured, no_answer, no_candidates,
};

mod map;
mod summary;

type Message<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family = Family { experiment: "ipc", sections, candidates: no_candidates, answer: no_answer };

/// From this number of pairs of CPUs on, they make a map rather than a table each.
const PAIRS_OF_A_MAP: usize = 3;

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Traffic {
    mode: Mode,
    interval_ns: Option<i64>,
    pair: Option<(u32, u32)>,
    place: Placement,
}

impl Traffic {
    fn of(parameters: &Parameters) -> Self {
        let Parameters { mode, interval_ns, place, .. } = *parameters;
        Self { mode, interval_ns, pair: pair(parameters), place }
    }

    /// The traffic in words, without the place.
    fn mode_in_words(&self) -> String {
        let every = || self.interval_ns.map_or(String::new(), units::exact);
        match self.mode {
            Mode::PingPong => "ping-pong: there and back".to_owned(),
            Mode::Saturated => "saturated: one way, as fast as they are taken".to_owned(),
            Mode::Sporadic => format!("sporadic: one way, one every {}", every()),
            Mode::Rate => format!("at a rate: one way, one due every {}", every()),
        }
    }

    fn place_in_words(&self) -> String {
        match (self.pair, self.place) {
            (Some((a, b)), _) if a == b => format!("both on CPU {a}"),
            (Some((a, b)), _) => format!("from CPU {a} to CPU {b}"),
            (None, Placement::SameCpu) => "same CPU".to_owned(),
            (None, Placement::TwoCpus) => "two CPUs".to_owned(),
            (None, Placement::AnyCpu) => "any CPU".to_owned(),
        }
    }
}

/// The CPUs of sender and receiver, where both are pinned.
fn pair(parameters: &Parameters) -> Option<(u32, u32)> {
    parameters.sender_cpu.zip(parameters.receiver_cpu)
}

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::ipc);
    let pairs: BTreeSet<_> = series.iter().filter_map(|series| pair(series.parameters)).collect();
    let on_a_map = |series: &Message<'_>| pairs.len() >= PAIRS_OF_A_MAP && pair(series.parameters).is_some();
    let (mapped, listed): (Vec<_>, Vec<_>) = series.iter().copied().partition(on_a_map);
    let mut groups: BTreeMap<Traffic, Vec<Message<'_>>> = BTreeMap::new();
    for series in &listed {
        groups.entry(Traffic::of(series.parameters)).or_default().push(*series);
    }
    let mut sections: Vec<Section> = groups.iter().map(|(traffic, rows)| table_section(run, traffic, rows)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(&listed)));
    }
    sections.extend(map::sections(run, &mapped));
    sections.extend(summary::sections(run, &series));
    sections
}

fn table_section(run: &Run, traffic: &Traffic, series: &[Message<'_>]) -> Section {
    let one_set = series.iter().all(|its| its.conditions == series[0].conditions);
    let mut heading = format!("ipc {}; {}", traffic.mode_in_words(), traffic.place_in_words());
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!("; {}", under(&conditions(run, &series[0].conditions))));
    }
    let columns = columns(run, series, one_set);
    Section::new(heading).with(Block::Table(columns.table(rows(traffic, series, &columns))))
}

/// By size; in each the quickest first, or with saturated traffic the one that passes most.
fn rows<'a>(traffic: &Traffic, series: &[Message<'a>], columns: &Columns<'_, Message<'a>>) -> Vec<Row> {
    let mut sorted = series.to_vec();
    sorted.sort_by(|a, b| {
        let by_size = a.parameters.size.cmp(&b.parameters.size);
        let late = |series: &Message<'_>| series.summary.p50.unwrap_or(i64::MAX);
        let rate = |series: &Message<'_>| series.metrics.per_second.unwrap_or(0.0);
        by_size.then_with(|| match traffic.mode {
            Mode::Saturated => rate(b).total_cmp(&rate(a)),
            _ => late(a).cmp(&late(b)),
        })
    });
    let mut rows = Vec::new();
    for (size, group) in grouped(&sorted, |series| series.parameters.size) {
        rows.push(Row::Label(format!("{}:", bytes(size))));
        rows.extend(group.iter().map(|series| columns.row(series, Paint::Plain)));
    }
    rows
}

/// Messages that did not arrive once, whole and in order.
fn faults(metrics: &Metrics) -> u64 {
    let all = [metrics.lost, metrics.duplicates, metrics.torn, metrics.reordered];
    all.into_iter().flatten().fold(0, u64::saturating_add)
}

/// What one of the two processes used per message: CPU time, switches of its own, forced ones.
type Used = (Option<f64>, Option<f64>, Option<f64>);

/// Of the sender and of the receiver. The process that measures receives; in ping-pong it begins.
fn used(series: &Message<'_>) -> (Used, Used) {
    let mine = (series.cpu_ns_per_op, series.voluntary_switches_per_op, series.involuntary_switches_per_op);
    let its = series.metrics;
    let theirs = (its.peer_cpu_ns, its.peer_voluntary_switches, its.peer_involuntary_switches);
    if series.quantity == Quantity::RoundTrip { (mine, theirs) } else { (theirs, mine) }
}

/// The columns of a table of these series, without those that say nothing of them.
fn columns<'a>(run: &'a Run, series: &[Message<'a>], one_set: bool) -> Columns<'a, Message<'a>> {
    let blocks = series.iter().all(|s| s.parameters.receive == Receive::Block);
    let switches = |(_, own, forced): Used| (own, forced);
    Columns::new()
        .left("mechanism", ALWAYS, |s: &Message<'_>| sanitize(&s.subject))
        .left("receive", 75, |s| s.parameters.receive.name().to_owned())
        .only_if(!blocks)
        .left("conditions", ALWAYS, |s| conditions(run, &s.conditions))
        .only_if(!one_set)
        .count("n", 40, |s| Some(s.summary.count))
        .ns("min", 45, |s| s.summary.min)
        .estimate("p50", (ALWAYS, 60), |s| (s.summary.p50, s.summary.ci95.p50))
        .ns("p90", 20, |s| s.summary.p90)
        .estimate("p99", (ALWAYS, 30), |s| (s.summary.p99, s.summary.ci95.p99))
        .ns("p99.9", 50, |s| s.summary.p999)
        .ns("max", 90, |s| s.summary.max)
        .count("messages/s", 100, |s| s.metrics.per_second.map(|n| n.round() as u64))
        .known("MB/s", 95, |s| Some(s.metrics.per_second? * s.parameters.size as f64), megabytes)
        .fine("CPU sender", 70, |s| used(s).0.0)
        .fine("CPU receiver", 71, |s| used(s).1.0)
        .switches("sw. sender", 25, move |s| switches(used(s).0))
        .switches("sw. receiver", 26, move |s| switches(used(s).1))
        .count("faults", 110, |s| Some(faults(s.metrics)))
        .only_if(series.iter().any(|s| faults(s.metrics) > 0))
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
fn bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{size} B"), |(unit, name)| format!("{} {name}", size / unit))
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[Message<'_>]) -> Vec<Note> {
    let mut notes = vec![Note::always(
        "One way: from the beginning of the call that sends (at a rate: from when the message was due) to the return of the call \
         that receives, in the other process. Ping-pong: there and back, not halved.",
    )];
    notes.push(interval_note());
    notes.push(Note::on("messages/s", "messages/s: in ping-pong, round trips."));
    notes.push(Note::on("CPU sender", "CPU: time per message, what the measurement itself takes included."));
    let switches = "sw.: times per message that the process gave up the CPU + was preempted.";
    notes.push(Note::on("sw. sender", switches));
    if series.iter().any(|s| faults(s.metrics) > 0) {
        notes.push(Note::on("faults", "faults: messages lost, duplicated, torn or out of order."));
    }
    notes.extend(absent_note(series.iter().map(|s| s.series)));
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
