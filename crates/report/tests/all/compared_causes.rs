//! Causes of two sides: what is shown is named with its culprit, and nothing below the scatter is.

use std::sync::LazyLock;

use crate::common::causes::{call, cause, causes, own_run};
use crate::forms::{unjudged, written};
use insta::assert_snapshot;
use punctual_record::{Cause, CauseTime, Causes, LatePart, Run, Unseen};
use punctual_report::Style;
use punctual_report::compare::{Comparison, Options, Side, Verdict, compare};
use punctual_report::export::{Reported as _, html, markdown, text};

fn run_with(number: i64, causes: Option<Causes>) -> Run {
    // Its samples take long to make.
    static RUN: LazyLock<Run> = LazyLock::new(own_run);
    let mut run = RUN.clone();
    run.started = jiff::Timestamp::from_second(1_700_000_000 + number * 100).unwrap();
    run.causes = causes;
    run
}

fn sides(old: &[Run], new: &[Run]) -> Comparison {
    let side = |runs: &[Run]| {
        let mut side = Side::new();
        runs.iter().enumerate().for_each(|(i, run)| side.add(&format!("{i}.json"), run).unwrap());
        side
    };
    compare(&side(old), &side(new), Options::default())
}

fn one(old: Option<Causes>, new: Option<Causes>) -> Comparison {
    sides(&[run_with(0, old)], &[run_with(1, new)])
}

/// A call with timer slack and these times in the run queue.
fn epoll(queued: &[(&str, u64)]) -> Causes {
    let slack = cause(LatePart::TimerSet, Cause::TimerSlack, None, 50_000);
    let ran = queued.iter().map(|(who, ns)| cause(LatePart::RunQueue, Cause::OtherThread, Some(who), *ns));
    causes(vec![call("redis-server", "epoll_wait", std::iter::once(slack).chain(ran).collect())])
}

fn text(comparison: &Comparison) -> String {
    let wide = Style { width: 1000, ..Style::default() };
    let shown = text::render(&unjudged(comparison.clone()).document(false), &wide);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn verdicts(comparison: &Comparison) -> Vec<(Cause, Verdict)> {
    comparison.causes.as_ref().unwrap().causes.iter().map(|cause| (cause.cause, cause.verdict)).collect()
}

#[test]
fn a_longer_run_queue_is_named_with_who_ran() {
    let comparison = one(Some(epoll(&[("cc1", 4_000)])), Some(epoll(&[("cc1", 4_000), ("kworker/1:2", 8_000)])));
    assert_eq!(
        verdicts(&comparison),
        [(Cause::TimerSlack, Verdict::NoDifference), (Cause::OtherThread, Verdict::Worse)]
    );
    let said = text(&comparison);
    assert!(said.contains("redis-server, epoll_wait: +8.00 µs a wake-up, run queue (95 %: "), "{said}");
    assert!(said.contains("): kworker/1:2 ran."), "{said}");
    let narrow = text::render(&unjudged(comparison).document(false), &Style { width: 110, ..Style::default() });
    assert_snapshot!(
        narrow.split_once("\nWhy late").expect("the section is there").1.split("\nWhat changed").next().unwrap()
    );
}

#[test]
fn a_change_of_many_small_culprits_names_none() {
    let few = [("a", 1_000), ("b", 1_000), ("c", 1_000)];
    let more = few.map(|(who, ns)| (who, ns * 4));
    let comparison = one(Some(epoll(&few)), Some(epoll(&more)));
    let cause =
        comparison.causes.as_ref().unwrap().causes.iter().find(|cause| cause.cause == Cause::OtherThread).unwrap();
    assert_eq!((cause.verdict, cause.culprit.as_deref()), (Verdict::Worse, None));
    assert!(text(&comparison).contains("another thread ran."));
}

#[test]
fn a_cause_that_went_is_less_and_not_more() {
    let comparison = one(Some(epoll(&[("kworker/1:2", 8_000)])), Some(epoll(&[])));
    assert_eq!(verdicts(&comparison)[1], (Cause::OtherThread, Verdict::Better));
    let said = text(&comparison);
    assert!(said.contains("−8.00 µs a wake-up") && !said.contains("+8.00 µs"), "{said}");
}

#[test]
fn nothing_is_claimed_below_the_scatter() {
    let scattered = |means: [f64; 6]| {
        let mut slow: CauseTime = cause(LatePart::RunQueue, Cause::OtherThread, Some("cc1"), 0);
        let mean = means.iter().sum::<f64>() / 6.0;
        slow.time.total_ns = (mean * 1000.0) as u64;
        slow.stretches_ns = means.to_vec();
        causes(vec![call("redis-server", "epoll_wait", vec![slow])])
    };
    // 8 µs more, where stretches of one run differ by 30 µs.
    let old = scattered([2_000.0, 30_000.0, 5_000.0, 1_000.0, 25_000.0, 3_000.0]);
    let new = scattered([30_000.0, 4_000.0, 35_000.0, 2_000.0, 1_000.0, 42_000.0]);
    let comparison = one(Some(old), Some(new));
    assert_eq!(verdicts(&comparison), [(Cause::OtherThread, Verdict::NoDifference)]);
    assert!(!text(&comparison).contains("a wake-up, run queue ("), "{}", text(&comparison));
    // Too few stretches say nothing of scatter.
    let mut few = epoll(&[("cc1", 90_000)]);
    few.calls[0].causes.iter_mut().for_each(|cause| cause.stretches_ns.truncate(4));
    let comparison = one(Some(few.clone()), Some(few));
    assert!(verdicts(&comparison).iter().all(|(_, verdict)| *verdict == Verdict::NotComparable));
}

#[test]
fn equal_machines_seldom_differ() {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut made = || {
        let mut all = epoll(&[("cc1", 10_000)]);
        for cause in &mut all.calls[0].causes {
            cause.stretches_ns = (0..20).map(|_| cause.time.p50_ns as f64 * (0.6 + 0.8 * next())).collect();
            cause.time.total_ns = (cause.stretches_ns.iter().sum::<f64>() / 20.0 * 1000.0) as u64;
        }
        all
    };
    let claimed = (0..200).filter(|_| {
        let comparison = one(Some(made()), Some(made()));
        verdicts(&comparison).iter().any(|(_, verdict)| *verdict != Verdict::NoDifference)
    });
    let claimed = claimed.count();
    assert!(claimed <= 10, "{claimed} of 200");
}

#[test]
fn several_runs_count_by_what_lies_between_them() {
    let runs = |numbers: [i64; 3], ns: [u64; 3]| -> Vec<Run> {
        numbers.iter().zip(ns).map(|(number, ns)| run_with(*number, Some(epoll(&[("cc1", ns)])))).collect()
    };
    let apart = sides(&runs([0, 1, 2], [4_000, 30_000, 9_000]), &runs([10, 11, 12], [8_000, 40_000, 12_000]));
    assert_eq!(verdicts(&apart)[1].1, Verdict::NoDifference, "runs differ by more");
    let alike = sides(&runs([0, 2, 4], [4_000, 4_010, 3_990]), &runs([1, 3, 5], [12_000, 12_020, 11_990]));
    assert_eq!(verdicts(&alike)[1].1, Verdict::Worse);
}

#[test]
fn what_one_side_did_not_record_is_no_zero() {
    let has = || Some(epoll(&[("cc1", 4_000)]));
    let only_new = one(None, has());
    assert!(text(&only_new).contains("Causes are not recorded in the old runs."));
    assert!(only_new.causes.as_ref().unwrap().causes.is_empty());
    assert!(text(&one(has(), None)).contains("Causes are not recorded in the new runs."));
    assert_eq!(one(None, None).causes, None);
    let mut other = epoll(&[("cc1", 4_000)]);
    other.calls[0].call = "futex".into();
    let comparison = one(has(), Some(other));
    assert!(comparison.causes.as_ref().unwrap().causes.is_empty());
    assert!(text(&comparison).contains("2 calls are recorded on one side only."));
    let blind = Causes { missing: vec![Unseen { what: "softirqs".into(), ..Unseen::default() }], ..epoll(&[]) };
    let said = text(&one(has(), Some(blind)));
    assert!(said.contains("what could not be seen differs") && !said.contains("a wake-up, run queue"), "{said}");
    assert!(!text(&one(has(), has())).contains("not recorded"));
}

#[test]
fn hostile_names_of_a_comparison_are_obeyed_by_nothing() {
    let evil = "\u{1b}[2J<b>@me";
    let taking = |ns| {
        let mut causes = epoll(&[(evil, ns)]);
        causes.calls[0].thread = evil.into();
        Some(causes)
    };
    let comparison = unjudged(one(taking(4_000), taking(40_000)));
    assert!(!text::render(&comparison.document(false), &Style::default()).contains('\u{1b}'));
    assert!(!written(html::write, &comparison).contains("<b>"));
    let markdown = written(markdown::write, &comparison);
    assert!(!markdown.contains("<b>") && !markdown.contains("@me"), "{markdown}");
}
