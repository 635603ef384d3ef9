//! Message passing: a table for each kind of traffic and each place, the fastest mechanism on top, a table of blocks of
//! consecutive messages, and conclusions. Where every pair of CPUs was measured, a map for each mechanism.

mod answer;
mod matters;
mod screen;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};

use crate::family::ipc::traffic::{Message, Traffic, brief, bytes, megabytes, pair, place, used};
use punctual_record::experiment::ipc::{Block as MessageBlock, Metrics, Mode, Receive};
use punctual_record::statistics::lower_median;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Row, Section};
use crate::family::shared::{ALWAYS, Family, absent_note, interval_note, measured};
use crate::format::naming::under;
use crate::format::{grouped, unbroken, units};
use crate::pictures;
use crate::pictures::messages::Pair;

pub(super) const FAMILY: Family = Family {
    experiment: "ipc",
    title: "Messages between processes",
    sections,
    candidates: matters::candidates,
    answer: answer::answer,
};

/// From this number of pairs of CPUs on, they make a map rather than a table each.
const PAIRS_OF_A_MAP: usize = 3;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::ipc);
    let pairs: BTreeSet<_> = series.iter().filter_map(|series| pair(series.parameters)).collect();
    let on_a_map = |series: &Message<'_>| pairs.len() >= PAIRS_OF_A_MAP && pair(series.parameters).is_some();
    let (mapped, listed): (Vec<_>, Vec<_>) = series.iter().copied().partition(on_a_map);
    let mut groups: BTreeMap<Traffic, Vec<Message<'_>>> = BTreeMap::new();
    for series in &listed {
        groups.entry(Traffic::from_parameters(series.parameters)).or_default().push(*series);
    }
    let mut sections: Vec<Section> = groups.iter().map(|(traffic, rows)| table(traffic, rows)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(&listed)));
    }
    sections.extend(maps(&mapped));
    sections.extend(blocks(&series));
    sections.extend(answer::section(run, &series));
    sections.extend(traffic::sections(run, &listed));
    sections
}

/// A figure of a block.
type OfBlock = fn(&MessageBlock) -> i64;

/// A figure of each block of a series.
fn figures<'a>(message: &Message<'a>, figure: OfBlock) -> impl Iterator<Item = i64> + use<'a> {
    message.metrics.blocks.iter().flatten().map(figure)
}

/// A table of the series whose messages were counted in blocks; none where there are none.
fn blocks(series: &[Message<'_>]) -> Option<Section> {
    let in_blocks = |message: &&Message<'_>| {
        let Metrics { block_messages, blocks, .. } = message.metrics;
        block_messages.is_some() && blocks.as_ref().is_some_and(|all| !all.is_empty())
    };
    let rows: Vec<Message<'_>> = series.iter().filter(in_blocks).copied().collect();
    let first = rows.first()?;
    let about = |message: &Message<'_>| {
        let parameters = message.parameters;
        format!("{}, {}, {}", unbroken(&bytes(parameters.size)), brief(parameters), place(parameters))
    };
    let one_set = rows.iter().all(|message| message.conditions == first.conditions);
    let one_kind = rows.iter().all(|message| about(message) == about(first));
    let heading = if one_kind { format!("ipc blocks; {}", about(first)) } else { "ipc blocks".to_owned() };
    let number = |message: &Message<'_>| {
        let [all, each] = [message.metrics.blocks.as_ref()?.len() as u64, message.metrics.block_messages?];
        Some(format!("{} of {}", units::count(all), units::count(each)))
    };
    let mut columns = Columns::new()
        .left("mechanism", ALWAYS, |message: &Message<'_>| message.subject.clone())
        .left("conditions", ALWAYS, |message| message.conditions.clone())
        .only_if(!one_set)
        .left("messages", ALWAYS, about)
        .only_if(!one_kind)
        .known("blocks", 60, number, |number| number);
    let spreads: [(&str, u8, OfBlock); 3] = [
        ("smallest", 30, |block| block.min_ns),
        ("mean", 80, |block| block.mean_ns.round() as i64),
        ("largest", 80, |block| block.max_ns),
    ];
    for (over, keep, figure) in spreads {
        columns = columns.over(over, |columns| {
            columns
                .ns("lowest", keep, move |message| figures(message, figure).min())
                .ns("p50", ALWAYS, move |message| lower_median(&figures(message, figure).collect::<Vec<_>>()))
                .only_if(over != "smallest")
                .ns("highest", keep, move |message| figures(message, figure).max())
        });
    }
    let legend = "Smallest, mean and largest latency of each block of consecutive messages; lowest, median and highest \
                 of all blocks.";
    let table = Block::Table(columns.plain(&rows));
    Some(Section::new(heading).with(table).with(Block::Legend(vec![Note::always(legend)])))
}

/// A table of these series, which share their traffic.
fn table(traffic: &Traffic, series: &[Message<'_>]) -> Section {
    let one_set = series.iter().all(|message| message.conditions == series[0].conditions);
    let mut heading = format!("ipc {}; {}", traffic.mode_in_words(), traffic.place_in_words());
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!("; {}", under(&series[0].conditions)));
    }
    let columns = columns(series, one_set);
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

/// The columns of a table of these series, without those that say nothing of them.
fn columns<'a>(series: &[Message<'a>], one_set: bool) -> Columns<'a, Message<'a>> {
    let blocks = series.iter().all(|s| s.parameters.receive == Receive::Block);
    Columns::new()
        .left("mechanism", ALWAYS, |s: &Message<'_>| s.subject.clone())
        .left("receive", 75, |s| s.parameters.receive.name().to_owned())
        .only_if(!blocks)
        .left("conditions", ALWAYS, |s| s.conditions.clone())
        .only_if(!one_set)
        .count("n", 40, |s| Some(s.summary.count))
        .ns("min", 45, |s| s.summary.min)
        .estimate("p50", (ALWAYS, 60), |s| (s.summary.p50, s.summary.ci95.p50))
        .ns("p90", 20, |s| s.summary.p90)
        .estimate("p99", (ALWAYS, 30), |s| (s.summary.p99, s.summary.ci95.p99))
        .summary([("p99.9", 50), ("max", 90)], |s| Some(&s.summary))
        .count("messages/s", 100, |s| s.metrics.per_second.map(|n| n.round() as u64))
        .known("MB/s", 95, |s| Some(s.metrics.per_second? * s.parameters.size as f64), megabytes)
        .fine("CPU sender", 70, |s| used(s).0.cpu_ns)
        .fine("CPU receiver", 71, |s| used(s).1.cpu_ns)
        .switches("sw. sender", 25, |s| used(s).0.switches)
        .switches("sw. receiver", 26, |s| used(s).1.switches)
        .count("faults", 110, |s| Some(faults(s.metrics)))
        .only_if(series.iter().any(|s| faults(s.metrics) > 0))
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[Message<'_>]) -> Vec<Note> {
    let mut notes = vec![
        Note::always(
            "One way: from the beginning of the call that sends (at a rate: from when the message was due) to the return of the call \
             that receives, in the other process. Ping-pong: there and back, not halved.",
        ),
        interval_note(),
        Note::on("messages/s", "messages/s: in ping-pong, round trips."),
        Note::on("CPU sender", "CPU: time per message, what the measurement itself takes included."),
        Note::on("sw. sender", "sw.: times per message that the process gave up the CPU + was preempted."),
    ];
    if series.iter().any(|s| faults(s.metrics) > 0) {
        notes.push(Note::on("faults", "faults: messages lost, duplicated, torn or out of order."));
    }
    notes.extend(absent_note(series.iter().map(|s| s.series)));
    notes
}

/// A map for each mechanism, kind of traffic, size, way of receiving and set of conditions.
fn maps<'a>(series: &[Message<'a>]) -> Vec<Section> {
    let key = |message: &Message<'a>| {
        let (series, asked) = (message.series, message.parameters);
        (asked.mode, asked.interval_ns, series.subject.as_str(), asked.size, asked.receive, series.conditions.as_str())
    };
    grouped(series, key).into_iter().map(|(_, pairs)| map(&pairs)).collect()
}

fn map(pairs: &[Message<'_>]) -> Section {
    let first = pairs[0];
    let heading = format!(
        "ipc {}, {}, receiver: {}; {}; {}",
        first.subject.clone(),
        bytes(first.parameters.size),
        first.parameters.receive,
        Traffic::from_parameters(first.parameters).mode_in_words(),
        under(&first.conditions),
    );
    let square = |series: &Message<'_>| {
        let figures = [series.summary.p50, series.summary.p99, series.summary.max];
        Some(Pair { cpus: pair(series.parameters)?.into(), count: series.summary.count, figures })
    };
    let squares: Vec<Pair> = pairs.iter().filter_map(square).collect();
    let title = format!("{}, {}", first.subject, bytes(first.parameters.size));
    let album = pictures::messages::map(title, pictures::quantity_name(first.quantity), &squares);
    Section::new(heading).with(Block::Album(album))
}
