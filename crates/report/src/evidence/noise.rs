//! The figures of a series in one run, and the noise of each, estimated from the run itself.
//!
//! Figures are compared on a scale on which equal steps are equal ratios ([`Scale`]); variances are on that scale.
//!
//! **Why not the rounds' standard error.** The lateness of a machine drifts: neighbours come and go, a host moves its
//! guests. Such flicker noise has the same power at ten times the duration, so averaging over a longer time does not
//! reduce it. The standard error of the rounds, or a block bootstrap, is too optimistic: on the development machine by a
//! factor of 1.4 to 1.8. The **Allan variance** measures the scatter of time averages of such noise. Source: D. W. Allan,
//! *Statistics of Atomic Frequency Standards*, 1966. It is half the mean square of the difference between averages of
//! adjacent stretches. It levels off where flicker begins, so the value at a fifth of a run estimates the distance between
//! two consecutive runs.

use punctual_record::{Distribution, Quantile, RoundFigures, Series, Summary};
use serde::Serialize;

use super::LEVEL;
use super::distributions::{Beta, student_quantile};

/// Fewest rounds for an estimate.
pub(crate) const MIN_ROUNDS: usize = 5;

/// Number of stretches of a run.
const STRETCHES: usize = 5;

/// Degrees of freedom of the Allan variance of one run: four differences between neighbours among five stretches.
/// Overlapping stretches add a little; neighbouring differences share a stretch, which takes it away.
pub(crate) const FREEDOM: f64 = 4.0;

/// The scale of comparisons: the inverse hyperbolic sine. It is logarithmic far above the cost of a clock reading and
/// linear below. So large figures compare by ratio; tiny, zero and negative ones by difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    unit: f64,
}

impl Scale {
    /// With the cost of a clock reading, in ns, as the size below which ratios mean nothing.
    const fn new(reading_ns: f64) -> Self {
        Self { unit: 2.0 * reading_ns.clamp(1.0, 1e9) }
    }

    /// From a figure to the scale.
    pub(crate) fn place(self, ns: f64) -> f64 {
        (ns / self.unit).asinh()
    }

    /// From the scale to a figure.
    pub(crate) fn figure(self, place: f64) -> f64 {
        place.sinh() * self.unit
    }

    /// The slope of the scale at a figure, per ns.
    pub(crate) fn step(self, ns: f64) -> f64 {
        1.0 / ns.hypot(self.unit)
    }
}

/// That of every comparison, so that the figures do not depend on the order of the sides. A clock reading costs this much on current
/// machines.
pub(crate) const SCALE: Scale = Scale::new(25.0);

/// The Allan variance of a figure's rounds at a fifth of their duration; `None` with fewer than [`MIN_ROUNDS`].
pub(crate) fn wandering(places: &[f64]) -> Option<f64> {
    if places.len() < MIN_ROUNDS {
        return None;
    }
    let stretch = (places.len() / STRETCHES).max(1);
    let averages: Vec<f64> =
        places.windows(stretch).map(|window| window.iter().sum::<f64>() / stretch as f64).collect();
    let pairs = averages.len().saturating_sub(stretch);
    let sum: f64 = (0..pairs).map(|i| (averages[i + stretch] - averages[i]).powi(2)).sum();
    let variance = sum / (2.0 * pairs as f64);
    variance.is_finite().then_some(variance)
}

/// Up to this many samples, every rank around a percentile is weighted. Beyond, samples are so dense that two of them
/// suffice.
const WEIGHED: u64 = 50_000;

/// The sampling variance of a percentile. Each nearby sample is weighted by the probability that the true percentile is
/// there. Source: J. S. Maritz and R. G. Jarrett, *A note on estimating the variance of the sample median*, 1978.
fn by_rank(distribution: &Distribution, quantile: Quantile) -> Option<f64> {
    let count = distribution.count();
    let rank = quantile.rank(count)?;
    let ratio = quantile.ratio();
    let deviation = (count as f64 * ratio * (1.0 - ratio)).sqrt();
    let at = |rank: u64| distribution.value_at_rank(rank.clamp(1, count)).map(|ns| SCALE.place(ns as f64));
    if count > WEIGHED {
        let away = deviation.ceil() as u64;
        let half = (at(rank.saturating_add(away))? - at(rank.saturating_sub(away))?) / 2.0;
        return Some(half * half);
    }
    // The probability of ranks further away is below 1e-9.
    let reach = (8.0 * deviation).ceil() as u64;
    let (first, last) = (rank.saturating_sub(reach), rank.saturating_add(reach));
    let chances = Beta::new(rank as f64, (count - rank + 1) as f64);
    let (min, max) = distribution.extremes()?;
    let place = |ns: i64| SCALE.place(ns.clamp(min, max) as f64);
    let (mut so_far, mut mean, mut square) = (0.0, 0.0, 0.0);
    let mut weigh = |chance: f64, place: f64| {
        let weight = chance - so_far;
        mean += weight * place;
        square += weight * place * place;
        so_far = chance;
    };
    let mut reached = distribution.overflow().0;
    for bucket in distribution.buckets() {
        reached += bucket.count;
        if reached >= last {
            break;
        }
        if reached > first {
            weigh(chances.below(reached as f64 / count as f64), place(bucket.high));
        }
    }
    weigh(1.0, at(last)?);
    Some((square - mean * mean).max(0.0))
}

/// One figure of each round that has it.
pub(crate) fn places(rounds: &[RoundFigures], figure: impl Fn(&RoundFigures) -> Option<f64>) -> Vec<f64> {
    let finite = |ns: &f64| ns.is_finite();
    rounds.iter().filter_map(|round| figure(round).filter(finite)).map(|ns| SCALE.place(ns)).collect()
}

/// What is compared of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Median.
    P50,
    /// 99th percentile.
    P99,
    /// CPU time per operation.
    Cpu,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::P50, Self::P99, Self::Cpu];

    /// The figure of a series or of a round.
    pub(super) fn read(self, summary: &Summary, cpu_ns: Option<f64>) -> Option<f64> {
        match self {
            Self::P50 => summary.p50.map(|ns| ns as f64),
            Self::P99 => summary.p99.map(|ns| ns as f64),
            Self::Cpu => cpu_ns.filter(|ns| ns.is_finite()),
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Cpu => "CPU",
        }
    }
}

/// Differences between runs that no run shows by itself. Examples are another memory layout, another link order, and
/// an interrupt moved to another CPU. Standard deviation on the comparison's scale, roughly a share of the figure.
pub(super) const fn floor(figure: Figure) -> f64 {
    match figure {
        Figure::P50 | Figure::Cpu => 0.01,
        Figure::P99 => 0.03,
    }
}

/// A clock with a coarse step rounds each figure: a uniform error of one step has the variance step^2 / 12.
pub(super) fn rounding(granularity: u64, ns: f64) -> f64 {
    (SCALE.step(ns) * granularity as f64).powi(2) / 12.0
}

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// Its position on the scale.
    pub(crate) place: f64,
    /// Its variance between runs, estimated from the run itself.
    pub(crate) noise: f64,
    /// Its additional variance, which no run shows.
    pub(crate) floor: f64,
}

/// Why a run has no reading of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The run does not have the figure.
    Absent,
    /// Too few samples.
    FewSamples,
    /// Too few rounds.
    FewRounds,
}

impl Missing {
    /// The reason, for a sentence about this figure.
    pub(crate) fn words(self, figure: Figure) -> String {
        let name = figure.name();
        match self {
            Self::Absent => format!("{name} was not measured"),
            Self::FewSamples => format!("too few samples for {name}"),
            Self::FewRounds => format!("fewer than {MIN_ROUNDS} rounds with {name}"),
        }
    }
}

/// The figures of a series in one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    /// Over all its rounds.
    pub(crate) summary: &'a Summary,
    /// CPU time per operation.
    pub(crate) cpu: Option<f64>,
    /// Round by round.
    pub(crate) rounds: &'a [RoundFigures],
    /// The clock's step, ns.
    pub(crate) granularity: u64,
}

impl Look<'_> {
    /// Its figures, in the order of [`Figure::ALL`].
    pub(crate) fn readings(&self, distribution: Option<&Distribution>) -> [Result<Reading, Missing>; 3] {
        Figure::ALL.map(|figure| self.reading(figure, distribution))
    }

    fn reading(&self, figure: Figure, distribution: Option<&Distribution>) -> Result<Reading, Missing> {
        let ns = figure.read(self.summary, self.cpu).ok_or_else(|| self.missing(figure))?;
        let rounds = places(self.rounds, |round| figure.read(&round.summary, round.cpu_ns_per_op));
        let is_tail = figure == Figure::P99;
        let noise = match wandering(&rounds).filter(|_| !is_tail || rounds.len() == self.rounds.len()) {
            Some(noise) => noise,
            None if is_tail => self.noise_of_tail(distribution)?,
            None => return Err(Missing::FewRounds),
        };
        let rounding = if figure == Figure::Cpu { 0.0 } else { rounding(self.granularity, ns) };
        Ok(Reading { place: SCALE.place(ns), noise, floor: floor(figure).powi(2) + rounding })
    }

    /// Rounds seldom have the 200 samples that their own 99th percentile needs. The noise is then the larger of the
    /// sampling noise around the percentile and the drift of the rounds' 90th percentile: the former contains part of
    /// the latter.
    fn noise_of_tail(&self, distribution: Option<&Distribution>) -> Result<f64, Missing> {
        let sampling = match (distribution, self.summary.ci95.p99) {
            (Some(distribution), _) => by_rank(distribution, Quantile::P99),
            (None, Some(interval)) => {
                let width = SCALE.place(interval.high as f64) - SCALE.place(interval.low as f64);
                // The 95 % interval is 2 x 1.96 standard deviations wide.
                Some((width / 3.92).powi(2))
            }
            (None, None) => None,
        };
        let sampling = sampling.ok_or(Missing::FewSamples)?;
        let body = places(self.rounds, |round| round.summary.p90.or(round.summary.p50).map(|ns| ns as f64));
        let drift = wandering(&body).ok_or(Missing::FewRounds)?;
        Ok(drift.max(sampling))
    }

    /// Why a figure is absent: a percentile needs samples.
    fn missing(&self, figure: Figure) -> Missing {
        let needs = match figure {
            Figure::P50 => Quantile::P50.fewest_samples(),
            Figure::P99 => Quantile::P99.fewest_samples(),
            Figure::Cpu => 0,
        };
        if self.summary.count < needs { Missing::FewSamples } else { Missing::Absent }
    }
}

/// A mean with its 95 % interval: of times in ns, or of shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    /// The mean of the rounds.
    pub(crate) value: f64,
    /// Lower end.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
}

impl Mean {
    /// The mean of one figure of each round. Its error is the Allan deviation of the rounds, since their standard error
    /// is too small on a machine that drifts. `None`: fewer rounds than a test takes.
    pub(crate) fn of_rounds(series: &Series, figure: impl Fn(&RoundFigures) -> Option<f64>) -> Option<Self> {
        let values: Vec<f64> = series.rounds.iter().filter_map(figure).filter(|ns| ns.is_finite()).collect();
        let error = wandering(&values)?.sqrt();
        let value = values.iter().sum::<f64>() / values.len() as f64;
        let reach = student_quantile(LEVEL, FREEDOM) * error;
        Some(Self { value, low: value - reach, high: value + reach })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_record::{Experiment, Quantity, Recorder, SeriesId, SeriesTally, Typed, Usage, experiment};

    use super::*;

    /// The variance is p (1 - p) / (n density^2), here of logistic samples.
    #[test]
    fn a_percentile_scatters_as_theory_says() {
        let mut recorder = punctual_record::Recorder::new();
        let count = 2000;
        (0..count).for_each(|i| {
            let p = (f64::from(i) + 0.5) / f64::from(count);
            recorder.record((100_000.0 + 5_000.0 * (p / (1.0 - p)).ln()) as i64);
        });
        let distribution = recorder.distribution();
        let found = by_rank(&distribution, Quantile::P99).unwrap();
        // A logistic distribution's density at a quantile is p (1 - p) / scale.
        let value = 100_000.0 + 5_000.0 * 99.0_f64.ln();
        let expected = (5_000.0 / value).powi(2) / (0.99 * 0.01 * f64::from(count));
        assert!((found / expected - 1.0).abs() < 0.2, "{found} {expected}");
    }

    #[test]
    fn independent_rounds_scatter_by_their_standard_error() {
        // Alternating rounds cancel within a stretch of two; a step between halves does not.
        let alternating: Vec<f64> = (0..10).map(|i| f64::from(i % 2)).collect();
        assert_eq!(wandering(&alternating), Some(0.0));
        let step: Vec<f64> = (0..10).map(|i| f64::from(i / 5)).collect();
        assert!(wandering(&step).unwrap() > 0.05);
        assert_eq!(wandering(&[1.0; 4]), None);
        assert_eq!(wandering(&[1.0; 5]), Some(0.0));
    }

    proptest! {
        #[test]
        fn there_and_back(ns in -1e12f64..1e12, reading in 0.0f64..1e4) {
            let scale = Scale::new(reading);
            let back = scale.figure(scale.place(ns));
            prop_assert!((back - ns).abs() <= 1e-9 * ns.abs().max(1.0));
        }

        #[test]
        fn ratios_of_large_figures_are_equal_steps(ns in 1e5f64..1e9) {
            let scale = Scale::new(24.0);
            let step = scale.place(1.2 * ns) - scale.place(ns);
            prop_assert!((step - 1.2f64.ln()).abs() < 1e-5);
        }
    }

    fn series(rounds: &[i64]) -> Series {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, &ns) in (0..).zip(rounds) {
            recorder.clear();
            recorder.record(ns);
            tally.add_round(round, 0, &recorder, Usage::default());
        }
        tally.to_series(SeriesId {
            experiment: Experiment::Wait(Typed::asked(experiment::wait::Parameters::asking(1))),
            subject: "nanosleep".into(),
            about: Default::default(),
            conditions: "other".into(),
            quantity: Quantity::Overshoot,
        })
    }

    fn mean(rounds: &[i64]) -> Option<Mean> {
        Mean::of_rounds(&series(rounds), |round| round.summary.mean)
    }

    #[test]
    fn rounds_that_differ_widen_it() {
        let narrow = mean(&[-10, -12, -10, -11, -12]).unwrap();
        assert!(narrow.value == -11.0 && narrow.high < 0.0 && narrow.low > -16.0, "{narrow:?}");
        let wide = mean(&[-90, 70, -80, 60, -15]).unwrap();
        assert!(wide.value == -11.0 && wide.low < -100.0 && wide.high > 80.0, "{wide:?}");
        assert_eq!(mean(&[-11, -11, -11, -11]), None, "too few rounds");
    }
}
