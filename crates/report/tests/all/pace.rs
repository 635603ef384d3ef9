//! What is said of pacing and of sweeps made by hand.

use crate::common::{Made, found, histogram, run, summary};
use insta::assert_snapshot;
use punctual_record::experiment::pace::{self, DepartureClock, Measured};
use punctual_record::experiment::sweep;
use punctual_record::{About, Experiment, Quantity, RoundFigures, Run, Series, Typed};
use punctual_report::verdict::Goal;
use punctual_report::{Document, Style, Verdict, export};

use crate::forms::shown;

const FOUND: &str = "as found";

/// Ten rounds of 300 departures each, 2 % of them late by `tail`.
fn late(subject: &str, median: i64, tail: i64) -> Series {
    let events = |round: u32| -> Vec<i64> {
        let shift = i64::from(round % 3) * median / 50;
        (0..300).map(|n| if n % 50 == 49 { tail + shift } else { median + shift + n % 7 * median / 100 }).collect()
    };
    let all: Vec<i64> = (0..10).flat_map(events).collect();
    let round = |round: u32| RoundFigures { round, summary: summary(&events(round)), ..RoundFigures::default() };
    let parameters = pace::Parameters {
        rate_per_second: 15_000.0,
        measured: Measured::Departure,
        to: Some("udp 127.0.0.1:9999".into()),
        size: Some(64),
    };
    let metrics = pace::Metrics {
        events: Some(3_000),
        departure: Some(DepartureClock::KernelStamp),
        rate_reached: Some(15_000.0),
        rate_share: Some(1.0),
        rate_p50: Some(15_000.0),
        ..pace::Metrics::default()
    };
    Series {
        experiment: Experiment::Pace(Typed { parameters, metrics }),
        subject: subject.into(),
        about: About { call: Some(format!("{subject}();")), ..About::default() },
        quantity: Quantity::Lateness,
        summary: summary(&all),
        histogram: Some(histogram(&all)),
        rounds: (0..10).map(round).collect(),
        ..Made::sleep("nanosleep", FOUND, median).series()
    }
}

pub(crate) fn change(series: &mut Series, with: impl FnOnce(&mut pace::Metrics)) {
    let Experiment::Pace(typed) = &mut series.experiment else { panic!("no pace") };
    with(&mut typed.metrics);
}

/// One that reaches a share of the rate only.
fn slow(subject: &str, rate: f64) -> Series {
    let mut series = late(subject, 80_000_000, 170_000_000);
    change(&mut series, |metrics| {
        (metrics.rate_reached, metrics.rate_share) = (Some(rate), Some(rate / 15_000.0));
        (metrics.rate_p50, metrics.rate_p50_low, metrics.rate_p50_high) =
            (Some(rate), Some(rate - 50.0), Some(rate + 40.0));
    });
    series
}

pub(crate) fn paced(series: Vec<Series>) -> Run {
    Run { series, ..run(&["punctual", "pace"], vec![found(FOUND, 50_000)], &[]) }
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join(" ").replace('\u{a0}', " ")
}

pub(crate) fn usual() -> Vec<Series> {
    vec![
        late("clock_nanosleep_abs", 70_000, 300_000),
        late("spin", 4_000, 54_000),
        late("hybrid", 4_050, 54_500),
        slow("nanosleep", 5_178.0),
        slow("nanosleep_1ns", 12_100.0),
    ]
}

#[test]
fn the_least_late_is_named_with_its_equals() {
    let said = answer(&paced(usual()));
    assert!(said.contains("Least late of those that held the rate within 1 %: spin"), "{said}");
    assert!(said.contains("; no difference shown from hybrid."), "{said}");
    assert!(!said.contains("from hybrid and clock_nanosleep_abs"), "{said}");
    let mut apart = usual();
    apart[2] = late("hybrid", 9_000, 120_000);
    let said = answer(&paced(apart));
    assert!(!said.contains("no difference shown"), "{said}");
    let mut later = usual();
    later[2] = late("hybrid", 40_000, 54_500);
    let said = answer(&paced(later));
    assert!(said.contains("within 1 %: spin") && !said.contains("hybrid"), "alike at p99, later at p50: {said}");
    let mut earlier = usual();
    earlier[2] = late("hybrid", 400, 54_500);
    let said = answer(&paced(earlier));
    assert!(said.contains("within 1 %: spin") && said.contains("; earlier at p50: hybrid."), "{said}");
    assert!(!said.contains("no difference shown"), "alike at p99, earlier at p50: {said}");
    let mut few = usual();
    few[2].rounds.clear();
    let said = answer(&paced(few));
    assert!(said.contains("not tested against hybrid") && !said.contains("no difference shown"), "{said}");
}

#[test]
fn the_rate_of_the_table_is_the_one_that_was_judged() {
    let mut series = usual();
    change(&mut series[0], |metrics| {
        (metrics.rate_p50, metrics.rate_reached, metrics.rate_share) = (Some(14_910.0), Some(14_394.0), Some(0.96));
    });
    let screen = export::text::head(&Document::from_run(&paced(series)), &Style::default(), 24).replace('\u{a0}', " ");
    assert!(screen.contains("14 394") && !screen.contains("14 910"), "{screen}");
}

#[test]
fn departures_by_another_clock_are_not_compared() {
    let mut series = usual();
    series[2] = late("hybrid_batch", 140, 50_000);
    change(&mut series[2], |metrics| metrics.departure = Some(DepartureClock::BeforeCall));
    let run = paced(series);
    let said = answer(&run);
    assert!(
        said.contains("within 1 %: spin") && said.contains("not comparable, by another clock: hybrid_batch"),
        "{said}"
    );
    let verdict = Verdict::from_run(&run);
    assert!(verdict.advice.iter().chain(&verdict.tried).all(|advice| !advice.id.contains("hybrid_batch")));
    let mut same = usual();
    same[2] = late("hybrid_batch", 140, 1_000);
    let said = answer(&paced(same));
    assert!(said.contains("within 1 %: hybrid_batch") && !said.contains("not comparable"), "{said}");
}

#[test]
fn the_packet_ceiling_is_that_of_the_shortest_sleep() {
    let said = answer(&paced(usual()));
    let sentence = "With a sleep between events one thread reaches 12 100 a second by nanosleep_1ns. \
                    Where it sleeps the whole 66.7 µs, it reaches 5178 by nanosleep.";
    assert!(said.contains(sentence), "{said}");
    // One that reaches the rate does not show its limit.
    let mut series = usual();
    series[4] = late("nanosleep_1ns", 70_000, 300_000);
    let said = answer(&paced(series));
    assert!(said.contains("reaches 5178 a second by nanosleep, which sleeps the whole 66.7 µs."), "{said}");
    assert!(!said.contains("nanosleep_1ns"), "{said}");
    // One that did not sleep is no sleep between events; the next shortest is.
    let mut series = usual();
    series[4].voluntary_switches_per_op = Some(0.001);
    series.push(slow("usleep_1us", 11_900.0));
    let said = answer(&paced(series));
    assert!(said.contains("reaches 11 900 a second by usleep_1us."), "{said}");
    assert!(!said.contains("nanosleep_1ns"), "{said}");
    let said = answer(&paced(vec![late("nanosleep", 70_000, 300_000), late("nanosleep_1ns", 70_000, 300_000)]));
    assert!(!said.contains("With a sleep between events"), "{said}");
}

#[test]
fn advice_is_for_an_even_rate_and_tested() {
    let run = paced(usual());
    let verdict = Verdict::from_run(&run);
    let ids: Vec<&str> = verdict.advice.iter().map(|advice| advice.id.as_str()).collect();
    assert!(ids.contains(&"clock_nanosleep_abs instead of nanosleep"), "{ids:?}");
    assert!(ids.contains(&"hybrid instead of clock_nanosleep_abs"), "{ids:?}");
    assert!(verdict.advice.iter().all(|advice| advice.goal == Goal::SendEvenly));
    // The same figures by all methods: nothing is advised.
    let same: Vec<Series> =
        ["nanosleep", "clock_nanosleep_abs", "hybrid", "spin"].map(|subject| late(subject, 70_000, 300_000)).into();
    let verdict = Verdict::from_run(&paced(same));
    assert!(verdict.advice.is_empty() && verdict.tried.len() == 3, "{:?}", verdict.advice);
}

fn swept(found: &[(&str, f64, Option<f64>)]) -> Run {
    let one = |&(subject, held, not): &(&str, f64, Option<f64>)| {
        let parameters = sweep::Parameters {
            to_per_second: 1e6,
            within_ns: 100_000,
            to: Some("tick-only".into()),
            ..sweep::Parameters::default()
        };
        let metrics = sweep::Metrics { highest_rate_held: Some(held), rate_not_held: not, ..sweep::Metrics::default() };
        Series { experiment: Experiment::Sweep(Typed { parameters, metrics }), ..late(subject, 4_000, 54_000) }
    };
    paced(found.iter().map(one).collect())
}

#[test]
fn a_sweep_names_ties() {
    let said = answer(&swept(&[
        ("hybrid", 1e6, None),
        ("spin", 1e6, None),
        ("timerfd", 7_900.0, Some(8_200.0)),
        ("my_rate", 8_000.0, Some(8_300.0)),
        ("compensated", 9_000.0, Some(9_400.0)),
    ]));
    assert_eq!(
        said,
        "Highest rate held: hybrid and spin, at least 1 000 000 a second. Lowest: my_rate and timerfd, 7900 a second."
    );
    let said = answer(&swept(&[("hybrid", 8_000.0, Some(8_300.0)), ("spin", 8_100.0, Some(8_400.0))]));
    assert_eq!(said, "No difference shown between spin and hybrid: 8100 a second.");
    assert_eq!(answer(&swept(&[("hybrid", 8_000.0, Some(8_300.0))])), "hybrid holds 8000 a second.");
}

#[test]
fn tables_and_words_of_pacing() {
    let mut series = usual();
    let jitter = Series { quantity: Quantity::PeriodJitter, ..late("spin", 500, 2_000) };
    series.push(jitter);
    assert_snapshot!(shown(&paced(series), &Style::default()));
}
