//! What is said of messages, each sentence beside figures of which it must not be said.

use crate::common::{Made, set};
use crate::ipc::{FULL, PING, Traffic, ipc_run, series};
use punctual_record::experiment::ipc::Mode;
use punctual_record::{Experiment, Notice, Run, Series};
use punctual_report::{Document, Verdict};

const TWO: Traffic = Traffic { cpus: (0, 1), ..PING };

/// The sentences of the first screen, with ordinary spaces.
fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ")
}

fn said(all: Vec<Series>) -> String {
    answer(&ipc_run(all))
}

fn message(traffic: Traffic, median: i64) -> Series {
    series("posix-mq", traffic, median, 100_000.0)
}

fn of_rounds(mut series: Series, rounds: usize) -> Series {
    series.rounds.truncate(rounds);
    series
}

#[test]
fn the_size_matters_where_its_rounds_show_it() {
    let sent = |size, median| message(Traffic { size, ..PING }, median);
    let text = said(vec![sent(8, 9_400), sent(64, 9_410), sent(1024, 9_450), sent(65_536, 41_000)]);
    let expected = "Size matters: 9.40 µs with 8 B, 41.0 µs with 64 KiB at p50 (posix-mq, there and back, one CPU). \
                    No difference is shown up to 1 KiB.";
    let figures = |text: &str| text.split(|c: char| c.is_ascii_digit() || c == '.').collect::<String>();
    assert_eq!(figures(&text), figures(expected), "{text}");
    let text = said(vec![sent(8, 9_400), sent(1024, 9_450)]);
    assert!(text.starts_with("Size shows no difference: 9.") && !text.contains("matters"), "{text}");
    let few = vec![of_rounds(sent(8, 9_400), 4), of_rounds(sent(65_536, 41_000), 4)];
    let text = said(few);
    assert_eq!(text, "Size is not tested: fewer than 5 rounds in common.");
}

#[test]
fn one_kind_of_message_alone_has_its_figure() {
    let sent = |mode| message(Traffic { mode, ..TWO }, 9_400);
    let expected = "A message of 64 B by posix-mq takes 9.40 µs at p50 (there and back, two CPUs).";
    assert_eq!(said(vec![sent(Mode::PingPong)]), expected);
    assert_eq!(said(vec![sent(Mode::PingPong), sent(Mode::Saturated)]), expected, "no time in a queue");
    assert_eq!(said(vec![sent(Mode::Saturated)]), "");
    let other = series("pipe", TWO, 6_000, 100_000.0);
    let both = |rounds| said(vec![of_rounds(sent(Mode::PingPong), rounds), of_rounds(other.clone(), rounds)]);
    assert!(both(10).starts_with("Quickest with a receiver that sleeps: pipe, 6.0"), "{}", both(10));
    assert!(!both(3).contains("Quickest") && !both(3).contains("takes"), "nothing is said without a test: {}", both(3));
}

#[test]
fn several_mechanisms_are_counted() {
    let sent = |name, size, median| series(name, Traffic { size, ..PING }, median, 100_000.0);
    let text = said(vec![
        sent("pipe", 64, 6_000),
        sent("pipe", 65_536, 40_000),
        sent("memfd-futex", 64, 6_000),
        sent("memfd-futex", 65_536, 6_050),
        sent("ring", 64, 9_000),
        sent("ring", 65_536, 6_000),
    ]);
    assert!(text.contains("Shown in 2 of 3 comparisons, in 1 of them the other way."), "{text}");
    let text = said(vec![
        sent("pipe", 64, 6_000),
        sent("pipe", 65_536, 6_050),
        of_rounds(sent("ring", 64, 6_000), 2),
        of_rounds(sent("ring", 65_536, 9_000), 2),
    ]);
    assert!(text.contains("Size shows no difference") && text.contains("1 of 2 comparisons; 1 not tested"), "{text}");
}

#[test]
fn rare_messages_are_compared_with_frequent_ones_counted_from_the_same_moment() {
    let sent = |mode, median| message(Traffic { mode, ..TWO }, median);
    let text = said(vec![sent(Mode::Saturated, 8_100), sent(Mode::Sporadic, 15_000)]);
    assert!(text.starts_with("Rate matters: 15.0 µs with one every 1 s, 8.1"), "{text}");
    assert!(text.contains("with saturated traffic at p50 (posix-mq, 64 B, two CPUs)."), "{text}");
    let text = said(vec![sent(Mode::Saturated, 8_100), sent(Mode::Sporadic, 8_150)]);
    assert!(text.starts_with("Rate shows no difference:"), "{text}");
    // A round trip has no rate, and latency at a rate counts from another moment.
    assert_eq!(said(vec![sent(Mode::PingPong, 8_100), sent(Mode::Sporadic, 15_000), sent(Mode::Rate, 30_000)]), "");
}

#[test]
fn the_placement_matters_and_two_threads_of_one_core_are_named() {
    let pair = |cpus, median| message(Traffic { cpus, ..PING }, median);
    let mut run = ipc_run(vec![pair((0, 0), 6_100), pair((0, 2), 60_000), pair((0, 1), 9_000)]);
    run.notices.push(Notice::SameCore { pairs: vec![[0, 1]] });
    let text = answer(&run);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("Placement matters: 6.1") && lines[0].contains("two threads of one core"), "{text}");
    assert!(lines[1].contains("60.") && lines[1].contains("on two CPUs at p50"), "{text}");
    let text = said(vec![pair((0, 0), 6_100), pair((1, 1), 6_000), pair((0, 1), 9_000), pair((0, 2), 60_000)]);
    assert!(text.contains("on CPU 0, 9.") && text.contains("on CPUs 0 and 1 at p50"), "of several pairs: {text}");
    let text = said(vec![pair((0, 0), 6_100), pair((0, 1), 6_110)]);
    assert!(text.starts_with("Placement shows no difference"), "{text}");
    let text = said(vec![pair((0, 0), 6_100)]);
    assert!(text.starts_with("A message of 64 B by posix-mq takes 6.1") && text.ends_with("one CPU)."), "{text}");
    // Time in a queue does not answer where round trips do.
    let full = |cpus, median| message(Traffic { cpus, ..FULL }, median);
    let both = vec![pair((0, 0), 6_100), pair((0, 1), 6_110), full((0, 0), 9_000), full((0, 1), 90_000)];
    assert!(said(both).starts_with("Placement shows no difference"));
    assert!(said(vec![full((0, 0), 9_000), full((0, 1), 90_000)]).starts_with("Placement matters"));
}

/// The same medians under two policies, and the maxima of ten rounds.
fn policies(other: [i64; 10], fifo: [i64; 10]) -> Vec<Series> {
    let under = |conditions, median, maxima: [i64; 10]| {
        let mut series = message(Traffic { conditions, ..FULL }, median);
        for (round, max) in series.rounds.iter_mut().zip(maxima) {
            round.summary.max = Some(max);
        }
        series
    };
    vec![under("SCHED_OTHER", 8_000, other), under("SCHED_FIFO 40", 8_010, fifo)]
}

const LARGE: [i64; 10] = [688_000, 310_000, 455_000, 290_000, 512_000, 601_000, 333_000, 420_000, 388_000, 399_000];
const SMALL: [i64; 10] = [85_000, 66_000, 71_000, 90_000, 82_000, 69_000, 77_000, 84_000, 60_000, 73_000];

#[test]
fn a_policy_steadies_the_maxima_where_nearly_all_rounds_say_so() {
    let text = said(policies(LARGE, SMALL));
    assert!(text.starts_with("Priority shows no difference: 8.0"), "{text}");
    let steady = "SCHED_FIFO 40 steadies the maxima: the largest of a round is 75.0 instead of 410 µs, smaller in 10 of 10 rounds.";
    assert!(text.ends_with(steady), "{text}");
    let text = said(policies(SMALL, LARGE));
    assert!(text.contains("SCHED_FIFO 40 makes the maxima larger") && text.contains("larger in 10 of 10"), "{text}");
}

#[test]
fn a_lone_maximum_or_a_few_rounds_are_no_evidence() {
    let mut lone = SMALL;
    lone[3] = 9_000_000;
    let mut mixed = LARGE;
    for (place, max) in mixed.iter_mut().enumerate().filter(|(place, _)| place % 2 == 0) {
        *max = SMALL[place] / 2;
    }
    for other in [lone, mixed] {
        let text = said(policies(other, SMALL.map(|max| max + 500)));
        assert!(text.contains("SCHED_FIFO 40 is not shown to steady the maxima"), "{text}");
    }
    let few: Vec<Series> = policies(LARGE, SMALL).into_iter().map(|series| of_rounds(series, 5)).collect();
    assert!(said(few).ends_with("Its maxima are not tested: fewer than 6 rounds in common."));
    // The larger maximum belongs to the series with twenty times the samples.
    let mut unequal = policies(LARGE, SMALL);
    unequal[0].rounds.iter_mut().for_each(|round| round.summary.count = 6_000);
    let text = said(unequal);
    assert!(text.contains("is not shown to steady the maxima"), "{text}");
}

#[test]
fn sets_that_differ_in_more_than_the_policy_are_not_compared() {
    let mut run = ipc_run(policies(LARGE, SMALL));
    run.conditions[1] = set("SCHED_FIFO 40", "fifo:40", Some(1), 1);
    assert_eq!(answer(&run), "");
}

/// A pipe and others, there and back on two CPUs.
fn mechanisms(medians: &[(&'static str, i64)]) -> Run {
    ipc_run(medians.iter().map(|&(name, median)| series(name, TWO, median, 1_000.0)).collect())
}

#[test]
fn the_quickest_mechanism_is_advised_with_its_equals() {
    let verdict = Verdict::from_run(&mechanisms(&[
        ("pipe", 31_000),
        ("memfd-futex", 19_000),
        ("posix-mq", 19_050),
        ("udp", 40_000),
    ]));
    let names: Vec<&str> = verdict.advice.iter().map(|advice| advice.what.as_str()).collect();
    assert_eq!(names, ["memfd-futex on two CPUs"]);
    let advice = &verdict.advice[0];
    assert_eq!((advice.instead_of.as_str(), advice.cases[0].case.as_str()), ("pipe", "64 B"));
    assert_eq!(advice.equal.iter().map(|remedy| remedy.what.as_str()).collect::<Vec<_>>(), ["posix-mq on two CPUs"]);
    assert_eq!(advice.price.program.as_deref(), Some("another design"));
}

#[test]
fn a_mechanism_is_not_advised_for_little_or_without_a_test() {
    let quick = |medians: &[(&'static str, i64)]| Verdict::from_run(&mechanisms(medians)).advice.len();
    assert_eq!(quick(&[("pipe", 31_000), ("memfd-futex", 29_500)]), 0, "less than a tenth");
    assert_eq!(quick(&[("pipe", 3_100), ("memfd-futex", 1_900)]), 0, "less than 2 µs");
    assert_eq!(quick(&[("posix-mq", 31_000), ("memfd-futex", 19_000)]), 0, "no pipe to compare with");
    let mut untested = mechanisms(&[("pipe", 31_000), ("memfd-futex", 19_000)]);
    untested.series.iter_mut().for_each(|series| series.rounds.truncate(4));
    assert_eq!(Verdict::from_run(&untested).advice.len(), 0);
    // Rounds that scatter by more than they gain.
    let mut noisy = mechanisms(&[("pipe", 31_000), ("memfd-futex", 19_000)]);
    for (round, figures) in noisy.series[1].rounds.iter_mut().enumerate() {
        figures.summary.p50 = Some(if round % 2 == 0 { 9_000 } else { 90_000 });
    }
    assert_eq!(Verdict::from_run(&noisy).advice.len(), 0);
}

#[test]
fn each_size_is_a_case_and_each_place_an_advice() {
    let mut all = Vec::new();
    for cpus in [(0, 0), (0, 1)] {
        for size in [64, 16_384] {
            all.push(series("pipe", Traffic { cpus, size, ..PING }, 40_000, 1.0));
            all.push(series("ring", Traffic { cpus, size, ..PING }, 20_000, 1.0));
        }
    }
    let verdict = Verdict::from_run(&ipc_run(all));
    let mut cases: Vec<_> = verdict.advice.iter().map(|advice| (advice.what.as_str(), advice.cases.len())).collect();
    cases.sort_unstable();
    assert_eq!(cases, [("ring on one CPU", 2), ("ring on two CPUs", 2)]);
    assert_eq!(verdict.advice[0].code.rust.as_deref(), Some("punctual::ipc::Ring"));
}

/// All text of the full report.
fn full(run: &Run) -> String {
    format!("{:?}", Document::from_run(run))
}

#[test]
fn quickest_is_said_of_several_whose_rounds_show_it() {
    let text = full(&mechanisms(&[("pipe", 31_000), ("memfd-futex", 19_000), ("posix-mq", 19_050)]));
    assert!(text.contains("Quickest there and back on two CPUs: memfd-futex"), "{text}");
    assert!(text.contains("At p50, no difference is shown from posix-mq."), "{text}");
    assert!(!full(&mechanisms(&[("pipe", 31_000)])).contains("Quickest"), "one is not the quickest");
    assert!(!full(&mechanisms(&[("pipe", 31_000), ("posix-mq", 31_050)])).contains("Quickest"), "equals");
    let mut untested = mechanisms(&[("pipe", 31_000), ("posix-mq", 19_000)]);
    untested.series.iter_mut().for_each(|series| series.rounds.truncate(2));
    let text = full(&untested);
    assert!(!text.contains("Quickest") && text.contains("Not tested against pipe."), "{text}");
}

#[test]
fn a_part_of_a_check_up_says_one_short_sentence() {
    let mut all = Vec::new();
    for size in [64, 16_384] {
        all.push(series("ring", Traffic { size, ..PING }, 7_000, 1.0));
        all.push(series("pipe", Traffic { size, ..PING }, 6_700, 1.0));
        all.push(series("ring", Traffic { size, ..TWO }, 59_000, 1.0));
        all.push(series("pipe", Traffic { size, ..TWO }, 62_000, 1.0));
    }
    let of_messages =
        |run: &Run| answer(run).lines().filter(|line| line.contains("CPU")).map(str::to_owned).collect::<Vec<_>>();
    let mut run = ipc_run(all);
    run.series.push(Made::sleep("nanosleep", "SCHED_OTHER", 52_000).series());
    let lines = of_messages(&run);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("64 B there and back take 6.") && lines[0].ends_with("on two CPUs (pipe)."),
        "{lines:?}"
    );
    assert!(lines[0].chars().count() < 80, "{lines:?}");
    run.series.retain(|series| {
        series.experiment.ipc().is_none_or(|series| series.parameters.sender_cpu == series.parameters.receiver_cpu)
    });
    assert!(of_messages(&run).is_empty(), "one place");
    assert!(run.series.iter().any(|series| matches!(series.experiment, Experiment::Ipc(_))));
}
