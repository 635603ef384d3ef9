//! Each finding of the verdict: what it says, and that it says so only when the intervals show it.

use crate::common::{Made, run, set};
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
    assert_snapshot!(said(with(&both(), words::answer)), @"Least late of those that sleep: nanosleep, 52.4 µs at p50, 294 µs at p99.");
    let spinning = of(&[Made::spin("spin_counter", "other", 33), Made::spin("spin_clock", "other", 45)]);
    assert_snapshot!(said(with(&spinning, words::answer)), @"Least late: spin_counter, 33 ns at p50, 175 ns at p99. None of them sleeps: each gave up the CPU in fewer than half of its waits.");
}

#[test]
fn answer_when_intervals_touch() {
    let mut run = both();
    overlap(&mut run);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep: nanosleep, 52.4 µs at p50, 294 µs at p99. At p50, ppoll cannot be told apart from it.");
}

#[test]
fn answer_with_too_few_samples() {
    let mut run = both();
    for series in &mut run.series {
        series.summary.ci95 = Default::default();
    }
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep in this run: nanosleep, 52.4 µs at p50, 294 µs at p99; too few samples to say that it is so.");
    assert_snapshot!(said(with(&run, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) cannot be told apart at p50, for 100 % of a CPU instead of 2.8 %.");
}

#[test]
fn another_may_be_less_late_at_p99() {
    let mut run = both();
    run.series[1].summary.p99 = Some(70_000);
    run.series[1].summary.ci95.p99 = Some(Interval { low: 69_000, high: 71_000 });
    run.series.truncate(2);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late: nanosleep, 52.4 µs at p50, 294 µs at p99. At p99, ppoll is less late: 70.0 µs.");
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
    assert_snapshot!(said(with(&run, words::answer)), @"Least late under other with slack 50 µs: nanosleep, 52.4 µs at p50, 294 µs at p99.");
    let made = [Made::sleep("nanosleep", "other", 52_300), Made::spin("nanosleep", "fifo:40", 3_000)];
    let run = crate::common::run(&["punctual", "wait"], sets, &made);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep: nanosleep (other, slack 50 µs), 52.4 µs at p50, 294 µs at p99. Without giving up the CPU, nanosleep (fifo:40) is less late: 3.00 µs at p50.");
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
    assert_snapshot!(said(with(&both(), words::trade_off)), @"Spinning wakes 52.3 µs [52.3 to 52.4 µs] earlier at p50 than sleeping (spin_counter, 33 ns), for 100 % of a CPU instead of 2.8 %.");
    let late = of(&[Made::sleep("nanosleep", "other", 3_000), Made::spin("spin_counter", "other", 9_000)]);
    assert_snapshot!(said(with(&late, words::trade_off)), @"Spinning does not pay here: spin_counter wakes 6.00 µs [5.98 to 6.02 µs] later at p50 than nanosleep, for 92 % of a CPU instead of 4.1 %.");
    let mut alike = both();
    overlap(&mut alike);
    assert_snapshot!(said(with(&alike, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) cannot be told apart at p50, for 100 % of a CPU instead of 2.8 %.");
}

#[test]
fn cpu_time() {
    let ppoll = |cpu_ns: f64| Made::sleep("ppoll", "other", 60_000).cpu(cpu_ns);
    let apart = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(9_000.0)]);
    assert_snapshot!(said(with(&apart, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); more for ppoll.");
    let touching = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(4_300.0)]);
    assert_snapshot!(said(with(&touching, words::cpu_time)), @"CPU time: about 4.3 µs per wait for those that sleep; none can be told apart from the least.");
    let usleep = Made::sleep("usleep", "other", 52_300).cpu(9_000.0);
    let mixed = of(&[Made::sleep("nanosleep", "other", 52_300), ppoll(4_300.0), usleep]);
    assert_snapshot!(said(with(&mixed, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); more for usleep, the others cannot be told apart.");
    let mut one_round = apart.clone();
    one_round.series.iter_mut().for_each(|series| series.rounds.truncate(1));
    assert_snapshot!(said(with(&one_round, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); without rounds it cannot be told whether others differ.");
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
    assert_snapshot!(said(with(&made(4_000), words::without_slack)), @"timerfd wakes 48.4 µs [48.3 to 48.5 µs] earlier at p50 than clock_nanosleep_abs. The kernel starts the timer of timerfd_settime without the thread's slack (fs/timerfd.c). Others without it that are earlier too: timer_handler.");
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
    assert_snapshot!(said(&two_slacks(5_000)), @"Timer slack of 50 µs costs nanosleep 47.4 µs [47.3 to 47.5 µs] at p50: 52.4 µs late, 5.00 µs with a slack of 1 ns. Of 2 methods that sleep, 1 is later and 1 shows no difference at p50.");
    assert_snapshot!(said(&two_slacks(52_300)), @"Timer slack of 50 µs instead of 1 ns: no difference that this run can show at p50 for nanosleep (52.4 µs late, and 52.4 µs). Of 2 methods that sleep, 2 show no difference at p50.");
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
    assert_snapshot!(said(&made(3_000)), @"rr:40 instead of other with slack 50 µs: nanosleep wakes 49.4 µs [49.3 to 49.5 µs] earlier at p50. It wakes 280 µs [219 to 341 µs] earlier at p99. Real-time threads have no timer slack: that can be part of it.");
    assert_snapshot!(said(&made(52_300)), @"rr:40 instead of other with slack 50 µs: nanosleep shows no difference at p50 (52.4 µs late, and 52.4 µs). It shows no difference at p99 (294 µs late, and 294 µs).");
    assert_snapshot!(said(&made(80_000)), @"rr:40 instead of other with slack 50 µs: nanosleep wakes 27.7 µs [27.5 to 27.9 µs] later at p50. It shows no difference at p99 (294 µs late, and 413 µs).");
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
