//! The tables of messages: one for each kind of traffic and each place.

use punctual_record::experiment::ipc::{Metrics, Mode, Receive};
use punctual_record::{Quantity, Run};

use crate::document::{Block, Columns, Note, Paint, Row, Section};
use crate::family::shared::{ALWAYS, absent_note, interval_note};
use crate::format::{grouped, sanitize};
use crate::naming::{conditions, under};

use super::traffic::{Message, Traffic, bytes, megabytes};

/// A table of these series, which share their traffic.
pub(super) fn section(run: &Run, traffic: &Traffic, series: &[Message<'_>]) -> Section {
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

/// What the columns mean, each note only where its column is shown.
pub(super) fn legend(series: &[Message<'_>]) -> Vec<Note> {
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
