//! The text of calibrations, of pacing and of the check-up's on-time line, of runs made by hand.

mod common;

use std::collections::BTreeMap;

use common::{Made, run, set};
use insta::assert_snapshot;
use punctual_record::{Param, Quantity, Run, Series};
use punctual_report::{Style, text};

fn at(width: usize) -> Style {
    Style { width, ..Style::default() }
}

fn words(pairs: &[(&str, Param)]) -> BTreeMap<String, Param> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn text_of(word: &str) -> Param {
    Param::Text(word.into())
}

/// A run of these series.
fn run_of(command: &[&str], series: Vec<Series>) -> Run {
    let mut run = run(command, vec![set("as found", "other", None, 50_000)], &[]);
    run.series = series;
    run
}

/// The series of one way of pacing: lateness, jitter of departures, one-way.
fn paced(subject: &'static str, median: i64, reached: f64, cpu_ns: f64, lost: i64) -> Vec<Series> {
    let made = |quantity, measured: &str, median| Series {
        experiment: "pace".into(),
        quantity,
        parameters: words(&[
            ("rate_per_second", Param::Real(15_000.0)),
            ("measured", text_of(measured)),
            ("to", text_of("udp 127.0.0.1:9999")),
            ("size", Param::Int(64)),
        ]),
        ..Made::sleep(subject, "as found", median).asked(66_667).cpu(cpu_ns).series()
    };
    let outcome = words(&[
        ("events", Param::Int(4_000)),
        ("departure", text_of("kernel's stamp")),
        ("rate_reached", Param::Real(reached)),
        ("rate_share", Param::Real(reached / 15_000.0)),
        ("not_sent", Param::Int(0)),
        ("lost", Param::Int(lost)),
        ("reordered", Param::Int(0)),
        ("received", Param::Int(4_000 - lost)),
    ]);
    vec![
        Series { outcome, ..made(Quantity::Lateness, "departure", median) },
        made(Quantity::PeriodJitter, "departure", median / 2 + 10),
        made(Quantity::OneWay, "arrival", 18_000),
    ]
}

fn pacing() -> Run {
    let ways = [
        paced("usleep", 9_500_000, 7_218.4, 14_000.0, 0),
        paced("clock_nanosleep_abs", 72_000, 14_998.7, 14_000.0, 0),
        paced("hybrid", 1_400, 15_000.0, 26_000.0, 0),
        paced("spin", 1_300, 15_000.0, 66_000.0, 2),
    ];
    run_of(&["punctual", "pace", "--rate", "15k"], ways.concat())
}

#[test]
fn pacing_at_140() {
    assert_snapshot!(text::render(&pacing(), &at(140)));
}

#[test]
fn pacing_at_80() {
    let text = text::render(&pacing(), &at(80));
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    assert_snapshot!(text);
}

#[test]
fn a_sweep() {
    let swept = |subject, held: f64, why: Option<&str>| {
        let mut outcome = words(&[("highest_rate_held", Param::Real(held)), ("rate_reached", Param::Real(held))]);
        outcome.extend(why.map(|why| ("why_not_higher".to_owned(), text_of(why))));
        outcome.extend(why.map(|_| ("rate_not_held".to_owned(), Param::Real(held * 1.04))));
        Series {
            experiment: "pace".into(),
            quantity: Quantity::Lateness,
            parameters: words(&[
                ("rate_per_second", Param::Real(held)),
                ("to", text_of("tick-only")),
                ("within_ns", Param::Int(100_000)),
            ]),
            outcome,
            ..Made::sleep(subject, "as found", 1_000).series()
        }
    };
    let series = vec![
        swept("usleep", 1_024.0, Some("reached 1000 of 1065 events a second")),
        swept("spin", 1_000_000.0, None),
        swept("hybrid", 1_000_000.0, None),
    ];
    assert_snapshot!(text::render(&run_of(&["punctual", "pace", "--sweep", "1k..1M"], series), &at(120)));
}

#[test]
fn a_receiver() {
    let made = |quantity| Series {
        experiment: "pace".into(),
        quantity,
        parameters: words(&[("rate_per_second", Param::Real(1_000.0)), ("measured", text_of("arrival"))]),
        outcome: words(&[
            ("received", Param::Int(3_990)),
            ("lost", Param::Int(7)),
            ("reordered", Param::Int(2)),
            ("duplicates", Param::Int(1)),
            ("rate_reached", Param::Real(999.98)),
        ]),
        ..Made::sleep("receive", "as found", 20_000).series()
    };
    let series = vec![made(Quantity::PeriodJitter), made(Quantity::OneWay)];
    assert_snapshot!(text::render(&run_of(&["punctual", "pace", "--receive"], series), &at(100)));
}

fn calibrated(with_compensation: bool) -> Run {
    let made = |figure: &str, median| Series {
        experiment: "calibrate".into(),
        parameters: words(&[("figure", text_of(figure))]),
        outcome: words(&[
            ("clock_read_ns", Param::Real(24.3)),
            ("p5_ns", Param::Real(61_000.0)),
            ("p95_ns", Param::Real(70_100.0)),
            ("drift_ns_per_s", Param::Real(-12.4)),
        ]),
        ..Made::sleep("nanosleep", "as found", median).series()
    };
    let proof = |figure: &str, median| {
        let mut series = made(figure, median);
        series.parameters.insert("asked_ns".into(), Param::Int(100_000));
        series
    };
    let mut series = vec![made("sleep_adds", 64_500), made("clock_costs", 900), proof("plain", 65_800)];
    if with_compensation {
        series.push(proof("compensated", 1_700));
    }
    series.push(proof("compensated_sleeper", 150));
    run_of(&["punctual", "calibrate"], series)
}

#[test]
fn a_calibration() {
    assert_snapshot!(text::render(&calibrated(true), &at(140)));
}

#[test]
fn a_wait_too_short_to_be_shortened() {
    let text = text::render(&calibrated(false), &at(100));
    assert!(text.contains("hybrid sleeper spins such waits"), "{text}");
}

/// One line, whatever is missing.
#[test]
fn the_check_ups_line() {
    let made = |asked: i64, median, count| Series {
        experiment: "on_time".into(),
        quantity: Quantity::Lateness,
        ..Made::sleep("hybrid", "as found", median).asked(asked).count(count).cpu(31_000.0).series()
    };
    let run = run_of(&["punctual", "checkup"], vec![made(100_000, 60, 4_000), made(1_000_000, 67, 30)]);
    assert_snapshot!(text::render(&run, &at(300)));
}
