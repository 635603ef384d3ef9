//! Simulated runs: how often a difference is claimed that is not there, and how often one is found.

use std::sync::LazyLock;

use punctual_record::{Interval, RoundFigures, Run, Series, Summary};
use serde_json::json;

use super::*;

/// Random numbers from a seed: uniform, and nearly normal as the sum of twelve.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        // A plain loop: unoptimised iterators take most of a simulation's time.
        let (mut sum, mut left) = (0.0, 12);
        while left > 0 {
            sum += self.uniform();
            left -= 1;
        }
        sum - 6.0
    }
}

/// An empty run, as read from a file.
fn run() -> Run {
    let value = json!({
        "schema": punctual_record::SCHEMA, "tool": { "name": "punctual", "version": "0" },
        "started": "2026-01-02T03:04:05Z", "elapsed_ns": 1, "complete": true, "command": [], "subcommand": "wait",
        "host": { "rt": {} }, "conditions": [], "series": [], "not_measured": [], "notices": [], "disturbance": {},
        "clock": { "source": "CLOCK_MONOTONIC", "read_ns": 25.0, "resolution_ns": 1, "granularity_ns": 1 },
    });
    serde_json::from_value(value).unwrap()
}

/// A series with these medians, a round each.
fn series(medians: &[f64]) -> Series {
    static TEMPLATE: LazyLock<Series> = LazyLock::new(|| {
        let value = json!({
            "experiment": "wait", "parameters": { "asked_ns": 100_000 }, "metrics": {}, "subject": "nanosleep",
            "conditions": "as found", "quantity": "overshoot", "unit": "ns", "rounds": [], "count": 1000, "negative": 0,
            "overflow": 0, "min": null, "p50": null, "p90": null, "p99": null, "p999": null, "max": null, "mean": null,
            "stdev": null, "ci95": { "p50": null, "p99": null },
        });
        serde_json::from_value(value).unwrap()
    });
    let summary = |ns: f64| Summary { p50: Some(ns as i64), ..Summary::default() };
    let round = |(round, &ns): (u32, &f64)| RoundFigures { round, summary: summary(ns), ..RoundFigures::default() };
    let mut sorted = medians.to_vec();
    sorted.sort_by(f64::total_cmp);
    Series {
        rounds: (0..).zip(medians).map(round).collect(),
        summary: summary(sorted[sorted.len() / 2]),
        ..TEMPLATE.clone()
    }
}

/// The outcomes at p50 of pairs of series. They have 10 rounds that share a drift, the second ones larger by this
/// factor.
fn outcomes(seed: u64, pairs: usize, factor: f64, noise: f64) -> Vec<Effect> {
    let mut random = Random(seed);
    let mut drift = 0.0;
    let drift: Vec<f64> = (0..10)
        .map(|_| {
            drift += 0.1 * random.normal();
            drift
        })
        .collect();
    let mut one = |factor: f64| {
        let figures: Vec<f64> =
            drift.iter().map(|drift| 80_000.0 * factor * (drift + noise * random.normal()).exp()).collect();
        series(&figures)
    };
    let all: Vec<(Series, Series)> = (0..pairs).map(|_| (one(1.0), one(factor))).collect();
    let pairs: Vec<Pair<'_>> = all.iter().map(|(before, after)| Pair { before, after, figure: Figure::P50 }).collect();
    test(&run(), &pairs)
}

/// One run in twenty may claim anything where nothing differs, however much the machine drifts.
#[test]
fn nothing_is_claimed_where_nothing_differs() {
    for noise in [0.01, 0.05, 0.3] {
        let runs = 400;
        let any = |seed: u64| outcomes(seed, 20, 1.0, noise).iter().any(|its| its.outcome != Outcome::NoDifference);
        let wrong = (0..runs).filter(|&seed| any(seed * 7919 + 1)).count();
        assert!(wrong * 20 <= runs as usize, "{wrong} of {runs} runs at a noise of {noise}");
    }
}

#[test]
fn a_third_less_is_found_and_has_the_right_sign() {
    let (mut found, mut runs) = (0, 0);
    for seed in 0..100 {
        for effect in outcomes(seed * 104_729 + 3, 10, 0.67, 0.05) {
            runs += 1;
            assert_ne!(effect.outcome, Outcome::Worse);
            if let Some(gain) = effect.better() {
                found += 1;
                assert!(0 < gain.low_ns && gain.low_ns <= gain.ns && gain.ns <= gain.high_ns, "{gain:?}");
            }
        }
    }
    assert!(found * 100 >= runs * 95, "{found} of {runs}");
}

/// Small and steady beside a scatter of single rounds that is larger: no claim.
#[test]
fn nothing_below_the_scatter_of_rounds() {
    let before: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 70_000.0 } else { 90_000.0 }).collect();
    let after: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 84_000.0 } else { 68_000.0 }).collect();
    let (before, after) = (series(&before), series(&after));
    let effect = &test(&run(), &[Pair { before: &before, after: &after, figure: Figure::P50 }])[0];
    assert_eq!(effect.outcome, Outcome::NoDifference);
    assert!(effect.gain.is_some_and(|gain| gain.scatter_ns > gain.ns.abs()), "{effect:?}");
}

#[test]
fn without_rounds_or_figures_nothing_is_tested() {
    let few = series(&[80_000.0; 4]);
    let many = series(&[20_000.0; 10]);
    for (before, after, figure) in [
        (&few, &many, Figure::P50),
        (&many, &few, Figure::P50),
        (&many, &many, Figure::P99),
        (&many, &many, Figure::Cpu),
    ] {
        let effect = &test(&run(), &[Pair { before, after, figure }])[0];
        assert_eq!(effect.outcome, Outcome::NotTested);
        assert!(effect.why.is_some() && effect.gain.is_none(), "{effect:?}");
    }
}

/// A tail that one burst made: the pooled p99 differs by far, and the rounds do not repeat it.
#[test]
fn a_tail_counts_only_where_rounds_repeat_it() {
    let with = |p90s: &[i64], p99: i64| {
        let mut made = series(&[50_000.0; 10]);
        made.summary.p99 = Some(p99);
        made.summary.count = 1000;
        made.summary.ci95.p99 = Some(Interval { low: p99 - p99 / 50, high: p99 + p99 / 50 });
        made.rounds.iter_mut().zip(p90s).for_each(|(round, p90)| round.summary.p90 = Some(*p90));
        made
    };
    let before = with(&[60_000; 10], 80_000);
    let outcome = |after: &Series| test(&run(), &[Pair { before: &before, after, figure: Figure::P99 }])[0].outcome;
    let burst = [60_500, 59_500, 60_400, 59_600, 60_300, 59_700, 60_200, 59_800, 60_100, 59_900];
    assert_eq!(outcome(&with(&burst, 400_000)), Outcome::NoDifference);
    assert_eq!(outcome(&with(&[70_000; 10], 400_000)), Outcome::Worse);
    assert_eq!(outcome(&with(&[30_000; 10], 40_000)), Outcome::Better);
}
