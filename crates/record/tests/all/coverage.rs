//! Confidence intervals cover what they claim to, and steady series are not called unsteady: by simulation with known truth.

use punctual_record::statistics::{Random, confidence_ranks};
use punctual_record::{
    About, Experiment, Quantile, Quantity, Recorder, SeriesId, SeriesTally, Steadiness, Typed, Usage,
};

/// A distribution by its quantile function, so that the truth is known and samples are quantile(uniform).
type Shape = (&'static str, fn(f64) -> i64);

const SHAPES: [Shape; 5] = [
    ("uniform", |u| (u * 1e6) as i64),
    ("skewed (exponential)", |u| (-(1.0 - u).ln() * 50_000.0) as i64),
    ("heavy tail (Pareto 1.1)", |u| (1000.0 * (1.0 - u).powf(-1.0 / 1.1)) as i64),
    ("heavily tied", |u| (u * 4.0).floor() as i64 * 1000),
    ("signed", |u| ((u - 0.5) * 200_000.0) as i64),
];

/// The share of trials in which the interval holds the true quantile.
fn coverage(n: usize, quantile: Quantile, shape: fn(f64) -> i64, trials: usize, random: &mut Random) -> f64 {
    let ranks = confidence_ranks(n as u64, quantile).unwrap();
    let truth = shape(quantile.ratio());
    let mut samples = vec![0; n];
    let covered = (0..trials).filter(|_| {
        samples.fill_with(|| shape(random.unit()));
        samples.sort_unstable();
        (samples[ranks.low as usize - 1]..=samples[ranks.high as usize - 1]).contains(&truth)
    });
    covered.count() as f64 / trials as f64
}

/// Trials with this number of samples in all, for each shape and size. The coverage should be at least 0.95; `least` leaves room for the
/// simulation's own scatter.
fn intervals_cover_in(samples: usize, least: f64) {
    let mut random = Random::new(1);
    for (quantile, sizes) in [(Quantile::P50, [6, 17, 100, 5000]), (Quantile::P99, [368, 500, 1500, 5000])] {
        for (n, (name, shape)) in sizes.iter().flat_map(|n| SHAPES.iter().map(move |shape| (n, shape))) {
            let trials = (samples / n).clamp(400, 20_000);
            let covered = coverage(*n, quantile, *shape, trials, &mut random);
            assert!(covered >= least, "{quantile:?} of {n} {name}: {covered}");
        }
    }
}

#[test]
fn intervals_cover() {
    intervals_cover_in(400_000, 0.92);
}

#[test]
#[ignore = "slow: run by the gate"]
fn intervals_cover_in_many_trials() {
    intervals_cover_in(4_000_000, 0.94);
}

#[test]
fn intervals_are_no_wider_than_they_must_be() {
    let mut random = Random::new(2);
    for (n, quantile) in [(100, Quantile::P50), (5000, Quantile::P50), (5000, Quantile::P99)] {
        let covered = coverage(n, quantile, SHAPES[0].1, 2000, &mut random);
        assert!(covered <= 0.98, "{quantile:?} of {n}: {covered}");
    }
}

/// Beyond the exact ranks' bound, sorting samples would be slow. The rank of the true quantile among them is simulated instead.
#[test]
fn intervals_of_very_many_samples_cover() {
    let n = 2_000_000u64;
    let mut random = Random::new(3);
    for quantile in [Quantile::P50, Quantile::P99, Quantile::P999] {
        let ranks = confidence_ranks(n, quantile).unwrap();
        let threshold = (quantile.ratio() * u64::MAX as f64) as u64;
        let trials = 60;
        let covered = (0..trials).filter(|_| {
            let below = (0..n).filter(|_| random.bits() < threshold).count() as u64;
            ranks.low <= below && below < ranks.high
        });
        // With a true coverage of 0.95, 60 trials show fewer than 50 once in 3000 times; the seed is fixed.
        let covered = covered.count();
        assert!(covered >= 50, "{quantile:?}: {covered} of {trials}");
    }
}

/// The recorder's intervals hold the truth too: bucketing only widens them.
#[test]
fn recorded_intervals_cover() {
    let mut random = Random::new(4);
    for (name, shape) in SHAPES {
        let (mut covered, trials, mut recorder) = ([0, 0], 400, Recorder::new());
        for _ in 0..trials {
            recorder.clear();
            (0..600).for_each(|_| recorder.record(shape(random.unit())));
            let ci95 = recorder.summary().ci95;
            for (hits, interval, quantile) in [(0, ci95.p50, Quantile::P50), (1, ci95.p99, Quantile::P99)] {
                let interval = interval.unwrap();
                covered[hits] += usize::from((interval.low..=interval.high).contains(&shape(quantile.ratio())));
            }
        }
        assert!(covered.iter().all(|&hits| hits as f64 >= 0.93 * f64::from(trials)), "{name}: {covered:?} of {trials}");
    }
}

/// Judges a series whose rounds are shifted by what `shift` says.
fn judged(
    rounds: u32,
    per_round: u32,
    shape: fn(f64) -> i64,
    shift: impl Fn(u32) -> i64,
    random: &mut Random,
) -> Option<Steadiness> {
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for round in 0..rounds {
        recorder.clear();
        (0..per_round).for_each(|_| recorder.record(shape(random.unit()) + shift(round)));
        tally.add_round(round, 0, &recorder, Usage::default());
    }
    tally
        .to_series(SeriesId {
            experiment: Experiment::Wait(Typed::default()),
            subject: "simulated".into(),
            about: About::default(),
            conditions: "other".into(),
            quantity: Quantity::Lateness,
        })
        .steadiness()
}

#[test]
fn steady_series_are_seldom_called_unsteady() {
    let mut random = Random::new(5);
    for (name, shape) in SHAPES {
        for (rounds, per_round) in [(3, 20), (10, 50), (20, 100)] {
            let trials = 150;
            let wrong = (0..trials)
                .filter(|_| judged(rounds, per_round, shape, |_| 0, &mut random).unwrap().is_unsteady())
                .count();
            assert!(wrong <= 5, "{name}, {rounds} rounds of {per_round}: {wrong} of {trials}");
        }
    }
}

#[test]
fn drift_and_steps_are_noticed() {
    let mut random = Random::new(6);
    let exponential = SHAPES[1].1;
    let drift = |round: u32| i64::from(round) * 10_000;
    let step = |round: u32| if round < 5 { 0 } else { 60_000 };
    for trial in 0..50 {
        assert!(judged(10, 300, exponential, drift, &mut random).unwrap().is_unsteady(), "drift, trial {trial}");
        assert!(judged(10, 300, exponential, step, &mut random).unwrap().is_unsteady(), "step, trial {trial}");
    }
}

#[test]
fn irrelevant_drift_is_no_news() {
    let mut random = Random::new(7);
    let narrow: fn(f64) -> i64 = |u| 1_000_000 + (u * 100.0) as i64;
    let verdict = judged(10, 1000, narrow, |round| i64::from(round) * 200, &mut random).unwrap();
    assert!(!verdict.is_unsteady(), "{verdict:?}");
}

#[test]
fn too_few_rounds_are_not_judged() {
    let mut random = Random::new(8);
    assert_eq!(judged(2, 1000, SHAPES[0].1, |_| 0, &mut random), None);
    assert_eq!(judged(10, 5, SHAPES[0].1, |_| 0, &mut random), None);
}
