//! What a run says of waits that signals cut short.

use crate::common::{Made, run, set, summary};
use crate::forms::shown;
use insta::assert_snapshot;
use punctual_record::{Experiment, Interval, Run};
use punctual_report::{Style, Verdict};

const OTHER: &str = "SCHED_OTHER";

/// A method, how late its waits end, the share cut short, the remainder's error, the share given up.
pub(crate) type Cut = (&'static str, i64, f64, Option<i64>, f64);

pub(crate) fn interrupted(cuts: &[Cut]) -> Run {
    let made: Vec<Made> = cuts.iter().map(|(name, late, ..)| Made::sleep(name, OTHER, late.abs())).collect();
    let mut run = run(&["punctual", "wait"], vec![set(OTHER, "other", None, 50_000)], &made);
    for (series, (_, late, short, error, given_up)) in run.series.iter_mut().zip(cuts) {
        if *late < 0 {
            series.summary = summary(&vec![*late; 4000]);
            series.summary.ci95.p50 = Some(Interval { low: late - 100, high: late + 100 });
        }
        let Experiment::Wait(wait) = &mut series.experiment else { unreachable!() };
        wait.parameters.interrupt_ns = Some(50_000);
        wait.metrics.cut_short_share = Some(*short);
        wait.metrics.remainder_error_ns = *error;
        wait.metrics.given_up_share = Some(*given_up);
    }
    run
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ")
}

pub(crate) const CUT: [Cut; 3] = [
    ("usleep", -50_000, 0.98, None, 0.0),
    ("nanosleep", 950_000, 0.98, Some(58_000), 0.9),
    ("clock_nanosleep_abs", 52_000, 0.95, None, 0.0),
];

#[test]
fn what_signals_do_is_said_first() {
    assert_snapshot!(answer(&interrupted(&CUT)));
}

#[test]
fn the_table_has_what_the_call_says_is_left() {
    let text = shown(&interrupted(&CUT), &Style { width: 100, ..Style::default() });
    let table = text.split_once("\nwait 100 µs, a signal every 50 µs\n").expect("the table").1;
    let table: Vec<&str> = table.lines().take(4).collect();
    assert_snapshot!(table.join("\n"));
}

#[test]
fn waits_that_no_signal_met_are_said_to_be_whole() {
    let whole = [("nanosleep", 53_000, 0.0, None, 0.0), ("clock_nanosleep_abs", 53_000, 0.0, None, 0.0)];
    let said = answer(&interrupted(&whole));
    assert_eq!(said, "Signals every 50 µs cut no wait of 100 µs short.");
}

#[test]
fn a_restart_that_costs_nothing_is_not_blamed() {
    let equal = [("nanosleep", 53_000, 0.5, Some(900), 0.0), ("clock_nanosleep_abs", 53_000, 0.5, None, 0.0)];
    let said = answer(&interrupted(&equal));
    assert!(said.contains("cut waits"), "{said}");
    assert!(!said.contains("later than") && !said.contains("early") && !said.contains("not over"), "{said}");
}

#[test]
fn a_restart_that_was_not_tested_is_not_blamed() {
    let mut few = interrupted(&CUT);
    few.series.iter_mut().for_each(|series| series.rounds.truncate(2));
    let said = answer(&few);
    assert!(!said.contains("later than"), "{said}");
}

#[test]
fn an_early_end_within_its_interval_is_not_one() {
    let mut unsure = interrupted(&CUT);
    unsure.series[0].summary.ci95.p50 = Some(Interval { low: -60_000, high: 1_000 });
    let said = answer(&unsure);
    assert!(!said.contains("early"), "{said}");
}

#[test]
fn interrupted_waits_are_no_ground_for_advice() {
    let verdict = Verdict::from_run(&interrupted(&CUT));
    assert!(verdict.advice.is_empty() && verdict.tried.is_empty(), "{:?}", verdict.advice);
    let text = shown(&interrupted(&CUT[..1]), &Style::default());
    assert!(!text.contains("To see what another method"), "{text}");
}

#[test]
fn waits_without_signals_say_nothing_of_them() {
    let plain = run(
        &["punctual", "wait"],
        vec![set(OTHER, "other", None, 50_000)],
        &[Made::sleep("nanosleep", OTHER, 52_000), Made::sleep("clock_nanosleep_abs", OTHER, 52_000)],
    );
    let text = shown(&plain, &Style::default());
    assert!(!text.contains("ignal") && !text.contains("cut short"), "{text}");
}
