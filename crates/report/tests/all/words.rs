//! Each finding of the verdict: what it says, and that it says so only when the intervals show it.

use crate::common::{Made, asked as asked_of, found, put, run, set};
use insta::assert_snapshot;
use proptest::prelude::*;
use punctual_record::{Interval, Param, Run, Series, Setting};
use punctual_report::words::{self, Code, Finding};

fn with<T>(run: &Run, sentence: impl Fn(&words::Figures<'_>) -> T) -> T {
    let series: Vec<&Series> = run.series.iter().collect();
    sentence(&words::Figures::of(run, 100_000, &series))
}

/// No-break spaces are a matter of layout.
fn said(finding: Option<Finding>) -> String {
    finding.expect("a finding").text().replace('\u{a0}', " ")
}

fn all_said(findings: Vec<Finding>) -> String {
    findings.into_iter().map(|finding| said(Some(finding))).collect::<Vec<_>>().join("\n")
}

fn of(made: &[Made]) -> Run {
    run(&["punctual", "wait"], vec![set("SCHED_OTHER", "other", None, 50_000)], made)
}

fn overlap(run: &mut Run) {
    for series in &mut run.series {
        series.summary.ci95.p50 = Some(Interval { low: 1, high: 1_000_000 });
    }
}

fn both() -> Run {
    of(&[
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("ppoll", "SCHED_OTHER", 60_000),
        Made::spin("spin_counter", "SCHED_OTHER", 33),
    ])
}

#[test]
fn answer() {
    assert_snapshot!(said(with(&both(), words::answer)), @"Least late of those that sleep: nanosleep, 52.4 µs at p50, 294 µs at p99.");
    let spinning = of(&[Made::spin("spin_counter", "SCHED_OTHER", 33), Made::spin("spin_clock", "SCHED_OTHER", 45)]);
    assert_snapshot!(said(with(&spinning, words::answer)), @"Least late: spin_counter, 33 ns at p50, 175 ns at p99. None of them sleeps: each gave up the CPU in fewer than half of its waits.");
}

#[test]
fn answer_when_intervals_touch() {
    let mut run = both();
    overlap(&mut run);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep: nanosleep, 52.4 µs at p50, 294 µs at p99. At p50, no difference from ppoll.");
}

#[test]
fn answer_with_too_few_samples() {
    let mut run = both();
    for series in &mut run.series {
        series.summary.ci95 = Default::default();
    }
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep in this run: nanosleep, 52.4 µs at p50, 294 µs at p99; too few samples to say that it is so.");
    assert_snapshot!(said(with(&run, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) show no difference at p50, for 100 % of a CPU instead of 2.8 %.");
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
    let sets = vec![set("SCHED_OTHER", "other", None, 50_000), set("SCHED_FIFO 40", "fifo:40", None, 0)];
    let made = [
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("ppoll", "SCHED_OTHER", 60_000),
        Made::sleep("nanosleep", "SCHED_FIFO 40", 3_000),
    ];
    let run = run(&["punctual", "wait"], sets.clone(), &made);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late under SCHED_OTHER: nanosleep, 52.4 µs at p50, 294 µs at p99.");
    let made = [Made::sleep("nanosleep", "SCHED_OTHER", 52_300), Made::spin("nanosleep", "SCHED_FIFO 40", 3_000)];
    let run = crate::common::run(&["punctual", "wait"], sets, &made);
    assert_snapshot!(said(with(&run, words::answer)), @"Least late of those that sleep: nanosleep (SCHED_OTHER), 52.4 µs at p50, 294 µs at p99. Without giving up the CPU, nanosleep (SCHED_FIFO 40) is less late: 3.00 µs at p50.");
}

#[test]
fn coarse_methods_are_not_ranked() {
    let run = of(&[
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("epoll_wait", "SCHED_OTHER", 10).rounding_to(1_000_000),
    ]);
    assert!(said(with(&run, words::answer)).starts_with("Least late: nanosleep"));
    let run = of(&[Made::sleep("epoll_wait", "SCHED_OTHER", 10).rounding_to(1_000_000)]);
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
    let late = of(&[Made::sleep("nanosleep", "SCHED_OTHER", 3_000), Made::spin("spin_counter", "SCHED_OTHER", 9_000)]);
    assert_snapshot!(said(with(&late, words::trade_off)), @"Spinning does not pay here: spin_counter wakes 6.00 µs [5.98 to 6.02 µs] later at p50 than nanosleep, for 92 % of a CPU instead of 4.1 %.");
    let mut alike = both();
    overlap(&mut alike);
    assert_snapshot!(said(with(&alike, words::trade_off)), @"Spinning (spin_counter) and sleeping (nanosleep) show no difference at p50, for 100 % of a CPU instead of 2.8 %.");
}

#[test]
fn cpu_time() {
    let ppoll = |cpu_ns: f64| Made::sleep("ppoll", "SCHED_OTHER", 60_000).cpu(cpu_ns);
    let apart = of(&[Made::sleep("nanosleep", "SCHED_OTHER", 52_300), ppoll(9_000.0)]);
    assert_snapshot!(said(with(&apart, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); more for ppoll.");
    let touching = of(&[Made::sleep("nanosleep", "SCHED_OTHER", 52_300), ppoll(4_300.0)]);
    assert_snapshot!(said(with(&touching, words::cpu_time)), @"CPU time: about 4.3 µs per wait for those that sleep; no method differs from the least.");
    let usleep = Made::sleep("usleep", "SCHED_OTHER", 52_300).cpu(9_000.0);
    let mixed = of(&[Made::sleep("nanosleep", "SCHED_OTHER", 52_300), ppoll(4_300.0), usleep]);
    assert_snapshot!(said(with(&mixed, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); more for usleep, no difference for the others.");
    let mut one_round = apart.clone();
    one_round.series.iter_mut().for_each(|series| series.rounds.truncate(1));
    assert_snapshot!(said(with(&one_round, words::cpu_time)), @"CPU time: 4.20 µs per wait for those that sleep at the least (nanosleep); the run has no rounds to compare others by.");
}

#[test]
fn timers_without_slack() {
    let made = |timer: i64| {
        let others = [
            Made::sleep("clock_nanosleep_abs", "SCHED_OTHER", 52_300),
            Made::sleep("timer_handler", "SCHED_OTHER", 5_000),
        ];
        let mut made = vec![Made::sleep("timerfd", "SCHED_OTHER", timer)];
        made.extend(others);
        of(&made)
    };
    assert_snapshot!(said(with(&made(4_000), words::without_slack)), @"timerfd wakes 48.4 µs [48.3 to 48.5 µs] earlier at p50 than clock_nanosleep_abs. The kernel starts the timer of timerfd_settime without the thread's slack (fs/timerfd.c). Others without it that are earlier too: timer_handler.");
    assert!(said(with(&made(52_300), words::without_slack)).starts_with("timer_handler"), "only what gains is named");
    let mut none = made(4_000);
    none.conditions[0].settings[3].applied = Some(Param::Int(1));
    assert_eq!(with(&none, words::without_slack), None);
    none.conditions[0].settings[3].applied = None;
    assert_eq!(with(&none, words::without_slack), None, "the slack is not known");
}

fn with_slack(ns: i64) -> Setting {
    asked_of("timer-slack", Param::Int(ns), &format!("slack {} us", ns / 1000))
}

fn two_slacks(small: i64) -> Run {
    let sets = vec![set("SCHED_OTHER", "other", None, 50_000), set("SCHED_OTHER, slack 1 ns", "other", Some(1), 1)];
    let made = [
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("nanosleep", "SCHED_OTHER, slack 1 ns", small),
        Made::sleep("ppoll", "SCHED_OTHER", 54_000),
        Made::sleep("ppoll", "SCHED_OTHER, slack 1 ns", 54_000),
        Made::spin("spin_counter", "SCHED_OTHER", 33),
        Made::spin("spin_counter", "SCHED_OTHER, slack 1 ns", 33),
    ];
    run(&["punctual", "wait"], sets, &made)
}

#[test]
fn slack() {
    let said = |run: &Run| all_said(with(run, words::changes));
    assert_snapshot!(said(&two_slacks(5_000)), @"slack 1 ns instead of slack 50 µs: nanosleep wakes 47.4 µs [47.3 to 47.5 µs] earlier at p50. It wakes 271 µs [209 to 332 µs] earlier at p99. Of 2 methods that sleep, 1 is earlier and 1 shows no difference at p50.");
    assert_snapshot!(said(&two_slacks(52_300)), @"slack 1 ns instead of slack 50 µs: nanosleep shows no difference at p50 (52.4 µs late, and 52.4 µs). Of 2 methods that sleep, 2 show no difference at p50.");
    let mut unknown = two_slacks(5_000);
    unknown.conditions[1].settings[3].applied = None;
    assert_eq!(said(&unknown), "");
    let mut two_things = two_slacks(5_000);
    two_things.conditions[1].settings[1].applied = Some(Param::Int(-10));
    assert_eq!(said(&two_things), "");
}

#[test]
fn policy() {
    let sets = || vec![set("SCHED_OTHER", "other", None, 50_000), set("SCHED_RR 40", "rr:40", None, 0)];
    let made = |rr: i64| {
        let made = [Made::sleep("nanosleep", "SCHED_OTHER", 52_300), Made::sleep("nanosleep", "SCHED_RR 40", rr)];
        run(&["punctual", "wait"], sets(), &made)
    };
    let said = |run: &Run| all_said(with(run, words::changes));
    assert_snapshot!(said(&made(3_000)), @"SCHED_RR 40 instead of SCHED_OTHER: nanosleep wakes 49.4 µs [49.3 to 49.5 µs] earlier at p50. It wakes 280 µs [219 to 341 µs] earlier at p99. Real-time threads have no timer slack: that can be part of it.");
    assert_snapshot!(said(&made(52_300)), @"SCHED_RR 40 instead of SCHED_OTHER: nanosleep shows no difference at p50 (52.4 µs late, and 52.4 µs).");
    assert_snapshot!(said(&made(80_000)), @"SCHED_RR 40 instead of SCHED_OTHER: nanosleep wakes 27.7 µs [27.5 to 27.9 µs] later at p50. It shows no difference at p99 (294 µs late, and 413 µs).");
    // Only an ordinary thread has a slice; nobody asked for one.
    let mut with_slice = made(3_000);
    put(
        &mut with_slice.conditions[0],
        Setting { asked: None, ..asked_of("slice", Param::Int(1_400_000), "slice 1.4 ms") },
    );
    assert_eq!(said(&with_slice), said(&made(3_000)));
    // Of real-time threads newer kernels read it back as 0, whatever was asked.
    let no_slack = Setting { phrase: "no slack".into(), ..with_slack(50_000) };
    let mut with_slacks = made(3_000);
    put(&mut with_slacks.conditions[0], with_slack(50_000));
    put(&mut with_slacks.conditions[1], Setting { applied: Some(Param::Int(0)), ..no_slack });
    with_slacks.conditions.push(set("SCHED_OTHER, slack 1 ns", "other", Some(1), 1));
    with_slacks.series.push(Made::sleep("nanosleep", "SCHED_OTHER, slack 1 ns", 3_000).series());
    let lead = "SCHED_RR 40 instead of SCHED_OTHER, both with slack 50 µs: nanosleep wakes";
    assert!(said(&with_slacks).contains(lead), "{}", said(&with_slacks));
    let mut slack_too = made(3_000);
    slack_too.conditions[1].settings[3].asked = Some(Param::Int(1));
    assert_eq!(said(&slack_too), "", "two things changed");
}

#[test]
fn a_condition_that_the_report_has_never_heard_of() {
    let setting = |asked: Option<i64>, held: i64, phrase: &str| Setting {
        asked: asked.map(Param::Int),
        code: Some("sched_setattr(0, &attributes, 0);".into()),
        ..asked_of("slice", Param::Int(held), phrase)
    };
    let mut sets = vec![found("as found", 50_000), found("slice 100 us", 50_000)];
    put(&mut sets[0], setting(None, 3_000_000, "slice 3 ms"));
    put(&mut sets[1], setting(Some(100_000), 100_000, "slice 100 us"));
    let made = [Made::sleep("nanosleep", "as found", 52_300), Made::sleep("nanosleep", "slice 100 us", 5_000)];
    let run = run(&["punctual", "wait"], sets, &made);
    let finding = with(&run, words::changes).pop().unwrap();
    assert_snapshot!(said(Some(finding.clone())), @"slice 100 µs instead of slice 3 ms: nanosleep wakes 47.4 µs [47.3 to 47.5 µs] earlier at p50. It wakes 271 µs [209 to 332 µs] earlier at p99.");
    assert_eq!(finding.code, Some(Code::Setting("sched_setattr(0, &attributes, 0);".into())));
}

/// Three methods with the given intervals around their medians.
fn three(values: [(i64, i64, i64); 3]) -> Run {
    let mut run = of(&[
        Made::sleep("a", "SCHED_OTHER", 100),
        Made::sleep("b", "SCHED_OTHER", 100),
        Made::sleep("c", "SCHED_OTHER", 100),
    ]);
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
            let listed = rest.split([' ', ',', '.']).any(|word| word == other.subject);
            prop_assert_eq!(apart, !listed, "{}", text);
        }
    }
}
