//! The report on messages, of runs made by hand. It has tables, the map of all pairs of CPUs, words, Markdown and CSV.

use std::collections::BTreeMap;

use crate::common::{Made, histogram, run, samples, set, summary};
use crate::forms::{notices, shown, written};
use insta::assert_snapshot;
use punctual_record::experiment::ipc::{Block, Metrics, Mode, Parameters, Placement, Receive};
use punctual_record::{About, Experiment, NotMeasured, Notice, Param, Quantity, RoundFigures, Run, Series, Typed};
use punctual_report::Style;
use punctual_report::export::{csv, markdown};

/// How messages went.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) mode: Mode,
    pub(crate) cpus: (u32, u32),
    pub(crate) size: u64,
    pub(crate) receive: Receive,
    pub(crate) conditions: &'static str,
}

pub(crate) const PING: Traffic =
    Traffic { mode: Mode::PingPong, cpus: (0, 0), size: 64, receive: Receive::Block, conditions: "SCHED_OTHER" };
pub(crate) const FULL: Traffic = Traffic { mode: Mode::Saturated, ..PING };

fn call(subject: &str) -> &'static str {
    match subject {
        "pipe" => "write, read",
        "posix-mq" => "mq_send, mq_receive",
        "ring" => "punctual::ipc::Ring",
        "udp" => "send, recv",
        _ => "futex",
    }
}

/// A series of ten rounds: a median in ns and messages a second.
pub(crate) fn series(subject: &str, traffic: Traffic, median: i64, per_second: f64) -> Series {
    let Traffic { mode, cpus: (sender, receiver), size, receive, conditions } = traffic;
    let samples = samples(median, 3000);
    let place = if sender == receiver { Placement::SameCpu } else { Placement::TwoCpus };
    let parameters = Parameters {
        size,
        mode,
        place,
        receive,
        sender_cpu: Some(sender),
        receiver_cpu: Some(receiver),
        interval_ns: [Mode::Sporadic, Mode::Rate].contains(&mode).then_some(1_000_000_000),
        depth: None,
    };
    let round =
        |(round, samples): (u32, &[i64])| RoundFigures { round, summary: summary(samples), ..RoundFigures::default() };
    let metrics = Metrics {
        per_second: Some(per_second),
        peer_cpu_ns: Some(median as f64 / 3.0),
        peer_voluntary_switches: Some(1.0),
        peer_involuntary_switches: Some(0.004),
        lost: Some(0),
        duplicates: Some(0),
        torn: Some(0),
        reordered: Some(0),
        ..Metrics::default()
    };
    Series {
        experiment: Experiment::Ipc(Typed { parameters, metrics }),
        subject: subject.into(),
        about: About { call: Some(call(subject).into()), kind: Some("any".into()), ..About::default() },
        conditions: conditions.into(),
        quantity: if mode == Mode::PingPong { Quantity::RoundTrip } else { Quantity::OneWay },
        summary: summary(&samples),
        histogram: Some(histogram(&samples)),
        cpu_ns_per_op: Some(median as f64 / 2.0),
        cpu_share: Some(0.5),
        rounds: (0..).zip(samples.chunks(300)).map(round).collect(),
        ..Made::sleep("nanosleep", conditions, median).series()
    }
}

fn lossy(mut series: Series, lost: u64) -> Series {
    let Experiment::Ipc(ipc) = &mut series.experiment else { unreachable!() };
    ipc.metrics.lost = Some(lost);
    series
}

pub(crate) fn ipc_run(series: Vec<Series>) -> Run {
    let sets = vec![set("SCHED_OTHER", "other", None, 50_000), set("SCHED_FIFO 40", "fifo:40", None, 50_000)];
    let used: Vec<_> = sets.into_iter().filter(|set| series.iter().any(|s| s.conditions == set.label)).collect();
    Run { series, ..run(&["punctual", "ipc"], used, &[]) }
}

/// Mechanisms on one CPU and on two, small and large messages, sleeping and polling.
fn usual() -> Run {
    let two = |traffic: Traffic| Traffic { cpus: (0, 1), ..traffic };
    let large = |traffic: Traffic| Traffic { size: 65_536, ..traffic };
    let poll = |traffic: Traffic| Traffic { receive: Receive::Poll, ..traffic };
    let mut all = vec![
        series("pipe", PING, 6_100, 160_000.0),
        series("posix-mq", PING, 4_800, 205_000.0),
        series("memfd-futex", PING, 4_810, 205_000.0),
        series("memfd-spin", poll(PING), 8_000_000, 125.0),
        series("pipe", large(PING), 31_000, 32_000.0),
        series("memfd-futex", large(PING), 19_000, 52_000.0),
        series("pipe", FULL, 40_000, 900_000.0),
        series("posix-mq", FULL, 9_000, 1_200_000.0),
        lossy(series("udp", FULL, 60_000, 410_000.0), 12_345),
        series("pipe", two(PING), 31_000, 31_000.0),
        series("posix-mq", two(PING), 36_000, 28_000.0),
        series("ring", two(poll(PING)), 410, 2_400_000.0),
        series("pipe", two(FULL), 52_000, 800_000.0),
        series("ring", two(poll(FULL)), 2_100, 9_000_000.0),
        series("posix-mq", two(large(FULL)), 90_000, 40_000.0),
    ];
    let sporadic = Traffic { mode: Mode::Sporadic, ..two(PING) };
    all.push(series("posix-mq", sporadic, 48_000, 1.0));
    let mut run = ipc_run(all);
    run.not_measured.push(NotMeasured {
        experiment: "ipc".into(),
        subject: "eventfd".into(),
        conditions: None,
        parameters: BTreeMap::from([("size".to_owned(), Param::Int(65_536))]),
        why: "65536 bytes are more than it carries: 8 by the mechanism itself: it carries one 64-bit number".into(),
        remedy: None,
    });
    run
}

fn at(width: usize) -> Style {
    Style { width, ..Style::default() }
}

#[test]
fn tables_and_words_at_60() {
    assert_snapshot!(shown(&usual(), &at(60)));
}

#[test]
fn tables_and_words_at_80() {
    assert_snapshot!(shown(&usual(), &at(80)));
}

#[test]
fn tables_and_words_at_140() {
    assert_snapshot!(shown(&usual(), &at(140)));
}

#[test]
fn conditions_side_by_side() {
    let under = |conditions| Traffic { conditions, ..PING };
    let all = vec![
        series("posix-mq", under("SCHED_OTHER"), 6_500, 150_000.0),
        series("posix-mq", under("SCHED_FIFO 40"), 4_700, 210_000.0),
        series("pipe", under("SCHED_OTHER"), 6_500, 150_000.0),
        series("pipe", under("SCHED_FIFO 40"), 5_900, 165_000.0),
    ];
    assert_snapshot!(shown(&ipc_run(all), &at(100)));
}

fn in_blocks(mut series: Series, means: &[f64], largest: &[i64]) -> Series {
    let Experiment::Ipc(ipc) = &mut series.experiment else { unreachable!() };
    let block = |(mean, max): (&f64, &i64)| Block { min_ns: 1_600, mean_ns: *mean, max_ns: *max };
    ipc.metrics.block_messages = Some(100_000);
    ipc.metrics.blocks = Some(means.iter().zip(largest).map(block).collect());
    series
}

#[test]
fn blocks_show_how_far_their_means_and_maxima_lie_apart() {
    let under = |conditions| series("posix-mq", Traffic { conditions, cpus: (0, 1), ..FULL }, 8_000, 650_000.0);
    let found = in_blocks(under("SCHED_OTHER"), &[8_500.0, 4_100.4, 6_000.0], &[688_000, 55_000, 90_000]);
    let fifo = in_blocks(under("SCHED_FIFO 40"), &[9_300.0, 5_000.0], &[85_000, 55_000]);
    let text = shown(&ipc_run(vec![found, fifo]), &at(120));
    let from = text.find("ipc blocks").expect("a section");
    assert_snapshot!(&text[from..text[from..].find("\n\n").map_or(text.len(), |end| from + end)]);
    assert!(!shown(&usual(), &at(120)).contains("ipc blocks"));
}

/// Every pair of `cpus`, near ones quicker.
pub(crate) fn matrix(cpus: u32) -> Run {
    let pair = |a: u32, b: u32| {
        let distance = if a == b { 0 } else { 1 + (a / 2).abs_diff(b / 2) };
        series("memfd-futex", Traffic { cpus: (a, b), ..PING }, 4_000 * 3_i64.pow(distance.min(3)), 100_000.0)
    };
    ipc_run((0..cpus).flat_map(|a| (0..cpus).map(move |b| pair(a, b))).collect())
}

#[test]
fn every_pair_as_a_map_with_figures() {
    assert_snapshot!(shown(&matrix(4), &at(80)));
}

#[test]
fn every_pair_as_a_map_of_shades_where_figures_have_no_room() {
    assert_snapshot!(shown(&matrix(4), &at(40)));
}

#[test]
fn many_cpus_as_a_map_of_shades() {
    assert_snapshot!(shown(&matrix(12), &Style { unicode: false, ..at(60) }));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let runs = [usual(), matrix(4), matrix(8), matrix(40)];
    for width in [40, 60, 80, 100, 140] {
        for run in &runs {
            let text = shown(run, &at(width));
            let wide: Vec<&str> =
                text.lines().filter(|line| line.chars().count() > width && !line.starts_with("      ")).collect();
            assert!(wide.is_empty(), "{width}: {wide:?}");
        }
    }
}

#[test]
fn a_run_whose_other_process_died() {
    let mut run = ipc_run(vec![series("pipe", PING, 6_100, 160_000.0)]);
    run.complete = false;
    run.notices.push(Notice::PeerEnded {
        subject: "posix-mq, 64 bytes, ping-pong".into(),
        how: "was killed by signal 9".into(),
        after_ns: 3_217_000_000,
    });
    let text = shown(&run, &at(100));
    assert!(text.contains("Incomplete: "), "{text}");
    let said = notices(&run, &at(100)).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("the other process was killed by signal 9 in the middle, 3.22 s after the run began"),
        "{said}"
    );
}

#[test]
fn as_markdown() {
    let out = written(markdown::write, &usual());
    assert_snapshot!(out);
}

#[test]
fn as_csv() {
    let out = written(csv::write, &usual());
    assert_snapshot!(out.replace("\r\n", "\n"));
}
