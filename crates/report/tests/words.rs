//! Each sentence of the verdict: what it says, and that it says so only when the intervals show it.

mod common;

use common::{Made, run, set};
use insta::assert_snapshot;
use proptest::prelude::*;
use punctual_record::{Interval, Run, Series};
use punctual_report::{Style, words};

fn with<T>(run: &Run, sentence: impl Fn(&words::Figures<'_>, &Style) -> T) -> T {
    let style = Style::default();
    let series: Vec<&Series> = run.series.iter().collect();
    sentence(&words::Figures::of(run, 100_000, &series, &style), &style)
}

/// No-break spaces are a matter of layout.
fn said(sentence: Option<String>) -> String {
    sentence.expect("a sentence").replace('\u{a0}', " ")
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
fn least_late() {
    assert_snapshot!(said(with(&both(), words::least_late)), @"Least late: spin_counter, 33 ns [32 to 33 ns] at p50 and 175 ns [153 to 199 ns] at p99.");
    assert_snapshot!(said(with(&both(), words::least_late_sleeping)), @"Of those that sleep, least late: nanosleep, 52.4 µs [52.3 to 52.5 µs] at p50 and 294 µs [236 to 352 µs] at p99.");
}

#[test]
fn least_late_when_intervals_touch() {
    let mut run = both();
    overlap(&mut run);
    assert_snapshot!(said(with(&run, words::least_late)), @"Least late: spin_counter, 33 ns [1 ns to 1.00 ms] at p50 and 175 ns [153 to 199 ns] at p99. At p50, nanosleep and ppoll cannot be told apart from it.");
}

#[test]
fn least_late_with_too_few_samples() {
    let mut run = both();
    for series in &mut run.series {
        series.summary.ci95 = Default::default();
    }
    assert_snapshot!(said(with(&run, words::least_late)), @"Least late in this run: spin_counter, 33 ns at p50, but too few samples to say that it is so.");
    assert_snapshot!(said(with(&run, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) cannot be told apart at p50, at 100 % of a CPU instead of 2.8 %.");
}

#[test]
fn another_may_be_less_late_at_p99() {
    let mut run = both();
    run.series[1].summary.p99 = Some(70_000);
    run.series[1].summary.ci95.p99 = Some(Interval { low: 69_000, high: 71_000 });
    run.series.truncate(2);
    assert_snapshot!(said(with(&run, words::least_late)), @"Least late: nanosleep, 52.4 µs [52.3 to 52.5 µs] at p50 and 294 µs [236 to 352 µs] at p99. At p99, ppoll is less late: 70.0 µs [69.0 to 71.0 µs].");
}

#[test]
fn coarse_methods_are_not_ranked() {
    let run =
        of(&[Made::sleep("nanosleep", "other", 52_300), Made::sleep("epoll_wait", "other", 10).rounding_to(1_000_000)]);
    assert!(said(with(&run, words::least_late)).starts_with("Least late: nanosleep"));
    let run = of(&[Made::sleep("epoll_wait", "other", 10).rounding_to(1_000_000)]);
    assert_eq!(with(&run, words::least_late), None);
    assert_eq!(with(&run, words::least_cpu), None);
}

#[test]
fn sleeping_is_what_was_measured_not_what_the_name_says() {
    let mut run = both();
    run.series[2].subject = "a_sleep".into();
    assert!(said(with(&run, words::trade_off)).starts_with("Spinning (a_sleep)"));
    for series in &mut run.series {
        series.voluntary_switches_per_op = None;
    }
    assert_eq!(with(&run, words::trade_off), None);
    assert_eq!(with(&run, words::least_late_sleeping), None);
    let run = of(&[Made::spin("spin_counter", "other", 33)]);
    assert_snapshot!(said(with(&run, words::least_late_sleeping)), @"None of them sleeps: each gave up the CPU in fewer than half of its waits.");
}

#[test]
fn trade_off() {
    assert_snapshot!(said(with(&both(), words::trade_off)), @"Spinning (spin_counter) wakes 52.3 µs [52.3 to 52.4 µs] earlier at p50 than sleeping (nanosleep), at 100 % of a CPU instead of 2.8 %.");
    let late = of(&[Made::sleep("nanosleep", "other", 3_000), Made::spin("spin_counter", "other", 9_000)]);
    assert_snapshot!(said(with(&late, words::trade_off)), @"Spinning does not pay here: spin_counter wakes 6.00 µs [5.98 to 6.02 µs] later at p50 than nanosleep, at 92 % of a CPU instead of 4.1 %.");
    let mut alike = both();
    overlap(&mut alike);
    assert_snapshot!(said(with(&alike, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) cannot be told apart at p50, at 100 % of a CPU instead of 2.8 %.");
}

#[test]
fn least_cpu() {
    let apart = of(&[Made::sleep("nanosleep", "other", 52_300), Made::sleep("ppoll", "other", 60_000).cpu(9_000.0)]);
    assert_snapshot!(said(with(&apart, words::least_cpu)), @"Least CPU time: nanosleep, 4.20 µs (2.8 % of a CPU) per wait, 4.12 µs to 4.33 µs in its rounds.");
    let touching = of(&[Made::sleep("nanosleep", "other", 52_300), Made::sleep("ppoll", "other", 60_000).cpu(4_300.0)]);
    assert_snapshot!(said(with(&touching, words::least_cpu)), @"Least CPU time: nanosleep, 4.20 µs (2.8 % of a CPU) per wait, 4.12 µs to 4.33 µs in its rounds. In CPU time, ppoll cannot be told apart from it.");
    let mut one_round = apart.clone();
    one_round.series.iter_mut().for_each(|series| series.rounds.truncate(1));
    assert_snapshot!(said(with(&one_round, words::least_cpu)), @"Least CPU time in this run: nanosleep, 4.20 µs (2.8 % of a CPU) per wait, but without rounds to say that it is so.");
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
    let said = |run: &Run| with(run, words::slack).join(" ").replace('\u{a0}', " ");
    assert_snapshot!(said(&two_slacks(5_000)), @"Timer slack of 50 µs instead of 1 ns under other makes nanosleep wake 47.4 µs [47.3 to 47.5 µs] later at p50 (52.4 µs instead of 5.00 µs); at p50, of 2 methods that sleep, 1 is later and 1 shows no difference.");
    assert_snapshot!(said(&two_slacks(52_300)), @"Timer slack of 50 µs instead of 1 ns under other: no difference that this run can show at p50 for nanosleep (52.4 µs [52.3 to 52.5 µs] and 52.4 µs [52.3 to 52.5 µs]); at p50, of 2 methods that sleep, 2 show no difference.");
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
    let said = |run: &Run| with(run, words::policy).join(" ").replace('\u{a0}', " ");
    assert_snapshot!(said(&made(3_000)), @"rr:40 instead of other: nanosleep wakes 49.4 µs [49.3 to 49.5 µs] earlier at p50, 280 µs [219 to 341 µs] earlier at p99. Timer slack (50 µs under other) is not applied to real-time threads: that can be part of it.");
    assert_snapshot!(said(&made(52_300)), @"rr:40 instead of other: nanosleep shows no difference that this run can show at p50 (52.4 µs [52.3 to 52.5 µs] and 52.4 µs [52.3 to 52.5 µs]), no difference that this run can show at p99 (294 µs [236 to 352 µs] and 294 µs [236 to 352 µs]).");
    assert_snapshot!(said(&made(80_000)), @"rr:40 instead of other: nanosleep wakes 27.7 µs [27.5 to 27.9 µs] later at p50, no difference that this run can show at p99 (294 µs [236 to 352 µs] and 413 µs [319 to 462 µs]).");
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
    fn least_late_names_every_method_it_cannot_exclude(values in [(0i64..500, 0i64..60, 0i64..60), (0i64..500, 0i64..60, 0i64..60), (0i64..500, 0i64..60, 0i64..60)]) {
        let run = three(values);
        let text = said(with(&run, words::least_late));
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
