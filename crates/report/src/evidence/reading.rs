//! The figures of a series in one run, each with its noise.

use punctual_record::{Distribution, Quantile, RoundFigures, Summary};
use serde::Serialize;

use super::noise::{self, SCALE};

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

    /// It, of a series or of a round.
    pub(super) fn of(self, summary: &Summary, cpu_ns: Option<f64>) -> Option<f64> {
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

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// The figure is known.
    Known {
        /// Its position on the scale.
        place: f64,
        /// Its variance between runs, estimated from the run itself.
        noise: f64,
        /// Its additional variance, which no run shows.
        floor: f64,
    },
    /// The run does not have the figure.
    Absent,
    /// Too few samples.
    FewSamples,
    /// Too few rounds.
    FewRounds,
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
    pub(crate) fn readings(&self, distribution: Option<&Distribution>) -> [Reading; 3] {
        Figure::ALL.map(|figure| match figure {
            Figure::P50 => self.median(),
            Figure::P99 => self.tail(distribution),
            Figure::Cpu => self.cpu(),
        })
    }

    fn median(&self) -> Reading {
        let Some(ns) = self.summary.p50 else { return self.missing(3) };
        let rounds = noise::places(self.rounds, |round| round.summary.p50.map(|ns| ns as f64));
        let Some(wandering) = noise::wandering(&rounds) else { return Reading::FewRounds };
        self.known(Figure::P50, ns as f64, wandering)
    }

    /// Rounds seldom have the 200 samples that their own 99th percentile needs. The noise is then the larger of two.
    /// They are the sampling noise around the percentile, and the drift of the rounds' 90th percentile. The former
    /// contains part of the latter.
    fn tail(&self, distribution: Option<&Distribution>) -> Reading {
        let Some(ns) = self.summary.p99 else { return self.missing(200) };
        let rounds = noise::places(self.rounds, |round| round.summary.p99.map(|ns| ns as f64));
        let all = rounds.len() == self.rounds.len();
        if let Some(wandering) = noise::wandering(&rounds).filter(|_| all) {
            return self.known(Figure::P99, ns as f64, wandering);
        }
        let by_rank = match (distribution, self.summary.ci95.p99) {
            (Some(distribution), _) => noise::by_rank(distribution, Quantile::P99),
            (None, Some(interval)) => {
                let width = SCALE.place(interval.high as f64) - SCALE.place(interval.low as f64);
                // The 95 % interval is 2 x 1.96 standard deviations wide.
                Some((width / 3.92).powi(2))
            }
            (None, None) => None,
        };
        let Some(by_rank) = by_rank else { return Reading::FewSamples };
        let body = noise::places(self.rounds, |round| round.summary.p90.or(round.summary.p50).map(|ns| ns as f64));
        match noise::wandering(&body) {
            Some(wandering) => self.known(Figure::P99, ns as f64, wandering.max(by_rank)),
            None => Reading::FewRounds,
        }
    }

    fn cpu(&self) -> Reading {
        let Some(ns) = self.cpu.filter(|ns| ns.is_finite()) else { return Reading::Absent };
        let rounds = noise::places(self.rounds, |round| round.cpu_ns_per_op);
        match noise::wandering(&rounds) {
            Some(wandering) => self.known(Figure::Cpu, ns, wandering),
            None => Reading::FewRounds,
        }
    }

    fn known(&self, figure: Figure, ns: f64, noise: f64) -> Reading {
        // A clock with a coarse step rounds each figure: a uniform error of one step has the variance step^2 / 12.
        let step = SCALE.step(ns) * self.granularity as f64;
        let rounding = if figure == Figure::Cpu { 0.0 } else { step * step / 12.0 };
        Reading::Known { place: SCALE.place(ns), noise, floor: floor(figure).powi(2) + rounding }
    }

    /// Why a percentile that needs this many samples is absent.
    fn missing(&self, needs: u64) -> Reading {
        if self.summary.count < needs { Reading::FewSamples } else { Reading::Absent }
    }
}
