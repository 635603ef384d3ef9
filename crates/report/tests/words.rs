//! Each finding of the verdict: what it says, and that it says so only when the intervals show it.

mod common;

use common::{Made, run, set};
use insta::assert_snapshot;
use proptest::prelude::*;
use punctual_record::{Interval, Run, Series};
use punctual_report::words::Finding;
use punctual_report::{Style, words};

fn with<T>(run: &Run, sentence: impl Fn(&words::Figures<'_>, &Style) -> T) -> T {
    let style = Style::default();
    let series: Vec<&Series> = run.series.iter().collect();
    sentence(&words::Figures::of(run, 100_000, &series, &style), &style)
}

/// No-break spaces are a matter of layout.
fn said(finding: Option<Finding>) -> String {
    finding.expect("a finding").text().replace('\u{a0}', " ")
}

fn all_said(findings: Vec<Finding>) -> String {
    findings.into_iter().map(|finding| said(Some(finding))).collect::<Vec<_>>().join("\n")
}

fn of(made: &[Made]) -> Run {
    run(&["punctual", "wait"], vec![set("other", "other", None, 50_000)], made)
}

fn overlap(run: &mut Run) {
    for series in &mut run.series {
        series.summary.ci95.p50 = Some(Interval { low: 1, high: 1_000_000 });
    }
}

fn both() -> Run {
    of(&[
        Made::sleep("nanosleep", "other", 52_300),
        Made::sleep("ppoll", "other", 60_000),
        Made::spin("spin_counter", "other", 33),
    ])
}

#[test]
fn answer() {
    assert_snapshot!(said(with(&both(), words::answer)), @"");
    let spinning = of(&[Made::spin("spin_counter", "other", 33), Made::spin("spin_clock", "other", 45)]);
    assert_snapshot!(said(with(&spinning, words::answer)), @"");
}

#[test]
fn answer_when_intervals_touch() {
    let mut run = both();
    overlap(&mut run);
    assert_snapshot!(said(with(&run, words::answer)), @"");
}

#[test]
fn answer_with_too_few_samples() {
    let mut run = both();
    for series in &mut run.series {
        series.summary.ci95 = Default::default();
    }
    assert_snapshot!(said(with(&run, words::answer)), @"");
    assert_snapshot!(said(with(&run, words::trade_off)), @"");
}

#[test]
fn another_may_be_less_late_at_p99() {
    let mut run = both();
    run.series[1].summary.p99 = Some(70_000);
    run.series[1].summary.ci95.p99 = Some(Interval { low: 69_000, high: 71_000 });
    run.series.truncate(2);
    assert_snapshot!(said(with(&run, words::answer)), @"");
}

#[test]
fn the_answer_is_under_the_usual_conditions() {
    let sets = vec![set("other", "other", None, 50_000), set("fifo:40", "fifo:40", None, 0)];
    let made = [
        Made::sleep("nanosleep", "other", 52_300),
        Made::sleep("ppoll", "other", 60_000),
        Made::sleep("nanosleep", "fifo:40", 3_000),
    ];
    let run = run(&["punctual", "wait"], sets.clone(), &made);
    assert_snapshot!(said(with(&run, words::answer)), @"");
    let made = [Made::sleep("nanosleep", "other", 52_300), Made::spin("nanosleep", "fifo:40", 3_000)];
    let run = common::run(&["punctual", "wait"], sets, &made);
    assert_snapshot!(said(with(&run, words::answer)), @"");
}

#[test]
fn coarse_methods_are_not_ranked() {
    let run =
        of(&[Made::sleep("nanosleep", "other", 52_300), Made::sleep("epoll_wait", "other", 10).rounding_to(1_000_000)]);
    assert!(said(with(&run, words::answer)).starts_with("Least late: nanosleep"));
    let run = of(&[Made::sleep("epoll_wait", "other", 10).rounding_to(1_000_000)]);
    assert_eq!(with(&run, words::answer), None);
    assert_eq!(with(&run, words::cpu_time), None);
}

#[test]
fn sleeping_is_what_was_measured_not_what_the_name_says() {
    let mut run = both();
    run.series[2].subject = "a_sleep".into();
    assert!(said(with(&run, words::trade_off)).contains("(a_sleep, "));
    for series in &mut run.series {
        series.voluntary_switches_per_op = None;
    }
    assert_eq!(with(&run, words::trade_off), None);
    let text = said(with(&run, words::answer));
    assert!(text.starts_with("Least late: a_sleep") && !text.contains("sleeps"), "{text}");
}

#[test]
fn trade_off() {
    assert_snapshot!(said(with(&both(), words::trade_off)), @"");
    let late = of(&[Made::sleep("nanosleep", "other", 3_000), Made::spin("spin_counter", "other", 9_000)]);
    assert_snapshot!(said(with(&late, words::trade_off)), @"");
    let mut alike = both();
    overlap(&mut alike);
    assert_snapshot!(said(with(&alike, words::trade_off)), @"");
}

#[test]
fn cpu_time() {
    let ppoll = |cpu_ns: f64| Made::sleep("ppoll", "other", 60_000).cpu(cpu_ns);
    let apart = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(9_000.0)]);
    assert_snapshot!(said(with(&apart, words::cpu_time)), @"");
    let touching = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(4_300.0)]);
    assert_snapshot!(said(with(&touching, words::cpu_time)), @"");
    let usleep = Made::sleep("usleep", "other", 52_300).cpu(9_000.0);
    let mixed = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(4_300.0), usleep]);
    assert_snapshot!(said(with(&mixed, words::cpu_time)), @"");
    let mut one_round = apart.clone();
    one_round.series.iter_mut().for_each(|series| series.rounds.truncate(1));
    assert_snapshot!(said(with(&one_round, words::cpu_time)), @"");
}

#[test]
fn timers_without_slack() {
    let made = |timer: i64| {
        let others =
            [Made::sleep("clock_nanosleep_abs", "other", 52_300), Made::sleep("timer_handler", "other", 5_000)];
        let mut made = vec![Made::sleep("timerfd", "other", timer)];
        made.extend(others);
        of(&made)
    };
    assert_snapshot!(said(with(&made(4_000), words::without_slack)), @"");
    assert!(said(with(&made(52_300), words::without_slack)).starts_with("timer_handler"), "only what gains is named");
    let mut none = made(4_000);
    none.conditions[0].applied.timer_slack_ns = Some(1);
    assert_eq!(with(&none, words::without_slack), None);
    none.conditions[0].applied.timer_slack_ns = None;
    assert_eq!(with(&none, words::without_slack), None, "the slack is not known");
}

fn two_slacks(small: i64) -> Run {
    let sets = vec![set("other", "other", None, 50_000), set("other, slack 1ns", "other", Some(1), 1)];
    let made = [
        Made::sleep("nanosleep", "other", 52_300),
        Made::sleep("nanosleep", "other, slack 1ns", small),
        Made::sleep("ppoll", "other", 54_000),
        Made::sleep("ppoll", "other, slack 1ns", 54_000),
        Made::spin("spin_counter", "other", 33),
        Made::spin("spin_counter", "other, slack 1ns", 33),
    ];
    run(&["punctual", "wait"], sets, &made)
}

#[test]
fn slack() {
    let said = |run: &Run| all_said(with(run, words::slack));
    assert_snapshot!(said(&two_slacks(5_000)), @"");
    assert_snapshot!(said(&two_slacks(52_300)), @"");
    let mut unknown = two_slacks(5_000);
    unknown.conditions[1].applied.timer_slack_ns = None;
    assert_eq!(said(&unknown), "");
    let mut two_things = two_slacks(5_000);
    two_things.conditions[1].applied.nice = Some(-10);
    assert_eq!(said(&two_things), "");
}

#[test]
fn policy() {
    let sets = || vec![set("other", "other", None, 50_000), set("rr:40", "rr:40", None, 0)];
    let made = |rr: i64| {
        let made = [Made::sleep("nanosleep", "other", 52_300), Made::sleep("nanosleep", "rr:40", rr)];
        run(&["punctual", "wait"], sets(), &made)
    };
    let said = |run: &Run| all_said(with(run, words::policy));
    assert_snapshot!(said(&made(3_000)), @"");
    assert_snapshot!(said(&made(52_300)), @"");
    assert_snapshot!(said(&made(80_000)), @"");
    let mut slack_too = made(3_000);
    slack_too.conditions[1].asked.timer_slack_ns = Some(1);
    assert_eq!(said(&slack_too), "", "two things changed");
}

/// Three methods with the given intervals around their medians.
fn three(values: [(i64, i64, i64); 3]) -> Run {
    let mut run = of(&[Made::sleep("a", "other", 100), Made::sleep("b", "other", 100), Made::sleep("c", "other", 100)]);
    for (series, (low, below, above)) in run.series.iter_mut().zip(values) {
        series.summary.p50 = Some(low + below);
        series.summary.ci95.p50 = Some(Interval { low, high: low + below + above });
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_answer_names_every_method_it_cannot_exclude(values in [(0i64..500, 0i64..60, 0i64..60), (0i64..500, 0i64..60, 0i64..60), (0i64..500, 0i64..60, 0i64..60)]) {
        let run = three(values);
        let text = said(with(&run, words::answer));
        let (first, rest) = text.split_once(" At p50, ").unwrap_or((&text, ""));
        let named = |subject: &str| first.starts_with(&format!("Least late: {subject},"));
        let interval = |series: &Series| series.summary.ci95.p50.unwrap();
        let least = run.series.iter().find(|series| named(&series.subject)).expect("a method of the run is named");
        for other in run.series.iter().filter(|other| other.subject != least.subject) {
            prop_assert!(least.summary.p50 <= other.summary.p50);
            let apart = interval(other).low > interval(least).high;
            let listed = rest.split([' ', ',']).any(|word| word == other.subject);
            prop_assert_eq!(apart, !listed, "{}", text);
        }
    }
}
