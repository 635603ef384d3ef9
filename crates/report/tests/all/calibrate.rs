//! What is said of calibrations made by hand.

use crate::common::{Made, found, histogram, put, run, set, summary};
use insta::assert_snapshot;
use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::{Experiment, Interval, RoundFigures, Run, Series, Typed};
use punctual_report::{Style, Verdict};

use crate::forms::shown;

/// Twenty rounds of twenty waits each, spread over `spread` around the median of each round.
fn series(figure: Figure, subject: &str, conditions: &str, medians: [i64; 20], spread: i64) -> Series {
    let waits = |median: i64| -> Vec<i64> { (-10..10).map(|n| median + n * spread / 10 + spread / 20).collect() };
    let all: Vec<i64> = medians.into_iter().flat_map(waits).collect();
    let round = |(round, median): (u32, i64)| RoundFigures {
        round,
        summary: summary(&waits(median)),
        ..RoundFigures::default()
    };
    let proof = !matches!(figure, Figure::SleepAdds | Figure::ClockCosts);
    let shortened = matches!(figure, Figure::Compensated | Figure::Remeasured);
    let metrics = Metrics {
        pairs: (figure == Figure::ClockCosts).then_some(2_020),
        shortened_by_ns: shortened.then_some(70_100.0),
        clock_read_ns: (figure == Figure::SleepAdds).then_some(34.0),
        ..Metrics::default()
    };
    let parameters = Parameters { figure, asked_ns: proof.then_some(100_000) };
    let negatives: Vec<i64> = all.iter().filter(|ns| **ns < 0).map(|ns| -ns).collect();
    Series {
        experiment: Experiment::Calibrate(Typed { parameters, metrics }),
        summary: summary(&all),
        histogram: Some(histogram(&all.iter().copied().filter(|ns| *ns >= 0).collect::<Vec<_>>())),
        negative_histogram: (!negatives.is_empty()).then(|| histogram(&negatives)),
        rounds: (0..).zip(medians).map(round).collect(),
        conditions: conditions.into(),
        ..Made::sleep("nanosleep", FOUND, 1).series()
    }
    .called(subject)
}

trait Called {
    fn called(self, subject: &str) -> Self;
}

impl Called for Series {
    fn called(self, subject: &str) -> Self {
        Self { subject: subject.into(), ..self }
    }
}

/// Rounds that differ a little, by half of `by`.
fn around(median: i64, by: i64) -> [i64; 20] {
    std::array::from_fn(|n| median + [-by, by / 3, -by / 3, by / 2, by][n % 5] / 2)
}

pub(crate) const FOUND: &str = "as found";

fn calibrated(series: Vec<Series>) -> Run {
    let mut conditions = vec![found(FOUND, 50_000)];
    let slack = set("slack 1 ns", "other", Some(1), 1);
    conditions.push(found("slack 1 ns", 50_000));
    slack
        .settings
        .into_iter()
        .filter(|setting| setting.condition == "timer-slack")
        .for_each(|setting| put(&mut conditions[1], setting));
    Run { series, ..run(&["punctual", "calibrate"], conditions, &[]) }
}

/// A calibration whose shortened waits have this median error, and those measured again that one.
pub(crate) fn proof(shortened: i64, again: i64, spread: i64) -> Run {
    let adds = series(Figure::SleepAdds, "nanosleep", FOUND, around(70_100, 1_000), 2_000);
    let mut costs = series(Figure::ClockCosts, "nanosleep", FOUND, [24; 20], 4);
    costs.summary.ci95.p50 = Some(Interval { low: 24, high: 25 });
    calibrated(vec![
        adds,
        costs,
        series(Figure::Plain, "nanosleep", FOUND, around(67_600, 1_000), 2_000),
        series(Figure::Compensated, "nanosleep", FOUND, around(shortened, 600), spread),
        series(Figure::Remeasured, "nanosleep", FOUND, around(again, 600), spread),
        series(Figure::CompensatedSleeper, "nanosleep", FOUND, around(4_000, 600), 2_000),
    ])
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join(" ").replace('\u{a0}', " ")
}

#[test]
fn waits_that_are_nearly_all_early_are_a_failure() {
    let run = proof(-3_900, 100, 4_000);
    let answer = answer(&run);
    assert!(answer.contains("shortened by TN: 97 % [95 99] early, mean error -3.87 µs"), "{answer}");
    assert!(answer.contains("It fails: a sleep of about 30 µs adds 4.07 µs less."), "{answer}");
    assert!(answer.contains("TN measured again: 47 % [45 49] early"), "{answer}");
    assert_eq!(answer.matches("It works.").count(), 1, "{answer}");
    let advice = Verdict::from_run(&run).advice;
    let compensation = advice.iter().find(|advice| advice.id == "compensation").expect("it works");
    assert!(compensation.what.contains("measured again"), "{compensation:?}");
    assert!(compensation.text().contains("47\u{a0}% of the waits end early"), "{}", compensation.text());
    assert!(advice.iter().any(|advice| advice.id == "sleeper"));
}

#[test]
fn a_compensation_that_fails_is_no_advice() {
    // Early by more than they would be late: a smaller figure, and no gain.
    let run = proof(-30_000, -20_000, 4_000);
    let verdict = Verdict::from_run(&run);
    assert!(!answer(&run).contains("It works"), "{}", answer(&run));
    assert!(verdict.advice.iter().chain(&verdict.tried).all(|advice| advice.id != "compensation"));
}

#[test]
fn waits_that_are_nearly_all_late_are_a_failure_too() {
    let answer = answer(&proof(3_000, 5_000, 2_000));
    assert!(answer.contains("adds 2.93 µs more.") && answer.contains("adds 4.93 µs more."), "{answer}");
    assert!(!answer.contains("It works"), "{answer}");
}

#[test]
fn rounds_that_contradict_each_other_decide_nothing() {
    let mut run = proof(-3_900, 100, 4_000);
    // Most waits are early, yet whole stretches of the run are very late.
    let wild = std::array::from_fn(|n| if (8..11).contains(&n) { 60_000 } else { -3_900 });
    run.series[3] = series(Figure::Compensated, "nanosleep", FOUND, wild, 4_000);
    let answer = answer(&run);
    assert!(answer.contains("Undecided: the rounds differ too much."), "{answer}");
    assert!(!answer.contains("It fails"), "{answer}");
}

#[test]
fn too_few_rounds_are_said_to_be_no_test() {
    let mut run = proof(-3_900, 100, 4_000);
    run.series.iter_mut().for_each(|series| series.rounds.truncate(4));
    let answer = answer(&run);
    assert_eq!(answer.matches("not tested, too few rounds").count(), 2, "{answer}");
    assert!(!answer.contains("It works") && !answer.contains("It fails"), "{answer}");
}

/// More than half early and an error that could be an eighth of what was taken off: neither works nor fails.
#[test]
fn too_many_early_or_too_wide_an_error_is_not_called_working() {
    let says = |run: &Run| answer(run).matches("It works.").count();
    let mut run = proof(100, 100, 4_000);
    assert_eq!(says(&run), 2);
    // Every other turn has three quarters of its waits early: 60 % in all, and up to 90 % by its interval.
    let turns = std::array::from_fn(|n| if n / 4 % 2 == 0 { 100 } else { -1_900 });
    run.series[3] = series(Figure::Compensated, "nanosleep", FOUND, turns, 4_000);
    assert_eq!(says(&run), 1, "{}", answer(&run));
    assert!(answer(&run).contains("Undecided: the rounds differ too much."), "{}", answer(&run));
    // A mean error of 0.9 us, whose interval reaches 8 us: the median stays where it was.
    let mut wide = proof(100, 100, 4_000);
    for round in &mut wide.series[3].rounds {
        round.summary.mean = Some(if round.round / 4 % 2 == 0 { -4_000.0 } else { 6_000.0 });
    }
    assert_eq!(says(&wide), 1, "{}", answer(&wide));
}

#[test]
fn the_cost_of_the_clock_is_that_of_readings_and_never_extrapolated() {
    let mut run = proof(-3_900, 100, 4_000);
    assert!(answer(&run).contains("TS+TE is 24 ns [24 25]; a reading takes 34 ns."), "{}", answer(&run));
    // As in records of earlier versions: the constant of a fit, of which nothing is said.
    let Experiment::Calibrate(typed) = &mut run.series[1].experiment else { panic!("{:?}", run.series[1]) };
    typed.metrics.pairs = None;
    run.series[1].summary.p50 = Some(-522);
    let text = shown(&run, &Style::default());
    assert!(!text.contains("TS+TE is") && !text.contains("-522"), "{text}");
}

/// What sleeps of several methods and conditions add.
pub(crate) fn several(medians: &[(&str, &str, i64)]) -> Run {
    let one = |&(subject, conditions, ns): &(&str, &str, i64)| {
        series(Figure::SleepAdds, subject, conditions, around(ns, 1_000), 2_000)
    };
    calibrated(medians.iter().map(one).collect())
}

#[test]
fn equals_are_never_said_to_be_least() {
    let run = several(&[("nanosleep", FOUND, 70_400), ("select", FOUND, 70_300)]);
    assert!(!answer(&run).contains("Least"), "{}", answer(&run));
    let run =
        several(&[("nanosleep", FOUND, 70_400), ("select", "slack 1 ns", 20_300), ("nanosleep", "slack 1 ns", 20_350)]);
    let said = answer(&run);
    assert!(
        said.contains("Least: select under slack 1 ns, 20.3 µs; no difference shown from nanosleep under slack 1 ns."),
        "{said}"
    );
    let mut old = run;
    old.series[2].rounds.clear();
    let said = answer(&old);
    assert!(
        said.contains("not tested against nanosleep under slack 1 ns") && !said.contains("no difference shown from"),
        "{said}"
    );
    old.series.iter_mut().for_each(|series| series.rounds.clear());
    assert!(!answer(&old).contains("Least"), "files of older versions have no rounds of TN: {}", answer(&old));
}

#[test]
fn tables_and_words_of_a_calibration() {
    let mut run = proof(-3_900, 100, 4_000);
    run.series.push(series(Figure::SleepAdds, "nanosleep", "slack 1 ns", around(20_100, 1_000), 2_000));
    run.series.push(series(Figure::Plain, "nanosleep", "slack 1 ns", around(21_600, 1_000), 2_000));
    assert_snapshot!(shown(&run, &Style::default()));
}
