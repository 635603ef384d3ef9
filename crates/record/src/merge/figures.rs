//! Sums of the figures of one series, run by run, and why runs cannot be added.

use crate::distribution::{self, Distribution};
use crate::model::{Part, RoundFigures, Series};
use crate::sanitize::{self, NAME};

/// Why a run cannot be merged with those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The run is merged already.
    #[error("the run that began at {started} is there already: its samples would count twice; name each run once")]
    Twice {
        /// When it began.
        started: String,
    },
    /// The runs have different clocks.
    #[error("its times were taken by {found}, those before it by {expected}; merge runs of one clock")]
    OtherClock {
        /// Its clock.
        found: String,
        /// The clock of the other runs.
        expected: String,
    },
    /// The runs share no series.
    #[error(
        "it shares no series with the runs before it (same experiment, subject, parameters and conditions as granted); \
         merge runs of the same command"
    )]
    NothingInCommon,
    /// The unit is not nanoseconds.
    #[error("the figures of series {series} are in {unit}, not in ns")]
    Unit {
        /// Subject of the series.
        series: String,
        /// Its unit.
        unit: String,
    },
    /// One run has the same series twice.
    #[error("it has two series of {series} that differ in nothing but their figures; the file was altered")]
    Ambiguous {
        /// Subject of the series.
        series: String,
    },
    /// The figures are damaged.
    #[error(transparent)]
    Figures(#[from] distribution::Error),
    /// The samples are too many to count.
    #[error("the samples of series {series} are more than can be counted; the file was altered")]
    TooMany {
        /// Subject of the series.
        series: String,
    },
    /// The merged figures of altered runs contradict each other.
    #[error(
        "the figures of these runs, added together, contradict each other: {why}; a file was altered or is damaged"
    )]
    Contradictory {
        /// The first contradiction.
        why: String,
    },
}

/// A series so far.
#[derive(Debug, Clone)]
pub(super) struct Added {
    /// Names, parameters, conditions; its figures are those of the first run until [`Added::finish`].
    series: Series,
    total: Distribution,
    sums: Sums,
    /// Samples of the runs so far.
    counted: u64,
}

/// A total is known only if every run knows its part.
#[derive(Debug, Clone, Copy)]
struct Sums {
    cpu_ns: Option<f64>,
    elapsed_ns: Option<f64>,
    voluntary: Option<f64>,
    involuntary: Option<f64>,
}

impl Sums {
    fn known(series: &Series) -> Self {
        let times = |figure: Option<f64>| Some(figure? * series.summary.count as f64);
        let cpu_ns = times(series.cpu_ns_per_op);
        // The record contains the share of CPU time, not the elapsed time behind it.
        let elapsed_ns = cpu_ns.zip(series.cpu_share).and_then(|(ns, share)| (share > 0.0).then_some(ns / share));
        Self {
            cpu_ns,
            elapsed_ns,
            voluntary: times(series.voluntary_switches_per_op),
            involuntary: times(series.involuntary_switches_per_op),
        }
    }

    fn plus(self, other: Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Self {
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
            elapsed_ns: both(self.elapsed_ns, other.elapsed_ns),
            voluntary: both(self.voluntary, other.voluntary),
            involuntary: both(self.involuntary, other.involuntary),
        }
    }
}

impl Added {
    pub(super) fn new(mut series: Series, offset: u32, before: u64) -> Result<Self, Error> {
        let total = Distribution::from_series(&series)?;
        let sums = Sums::known(&series);
        series.parts = parts(&series, offset);
        let rounds = std::mem::take(&mut series.rounds);
        let counted = series.summary.count;
        let mut added = Self { series, total, sums, counted };
        added.append(rounds, before);
        Ok(added)
    }

    pub(super) fn add(&mut self, next: Series, offset: u32, before: u64) -> Result<(), Error> {
        let distribution = Distribution::from_series(&next)?;
        if self.total.count().checked_add(distribution.count()).is_none() {
            return Err(Error::TooMany { series: sanitize::line(&next.subject, NAME) });
        }
        self.total.merge(&distribution);
        self.sums = self.sums.plus(Sums::known(&next));
        let new = parts(&next, offset);
        self.series.parts.extend(new);
        self.series.samples = match (self.series.samples.take(), next.samples) {
            (Some(mut samples), Some(more)) => {
                samples.extend(more);
                Some(samples)
            }
            _ => None,
        };
        self.series.experiment.merge(&next.experiment, (self.counted, next.summary.count));
        self.counted = self.counted.saturating_add(next.summary.count);
        self.append(next.rounds, before);
        Ok(())
    }

    /// Rounds continue where the previous run ended.
    fn append(&mut self, rounds: Vec<RoundFigures>, before: u64) {
        for mut round in rounds {
            round.round = self.series.rounds.len() as u32;
            round.started_ns = round.started_ns.saturating_add(before);
            self.series.rounds.push(round);
        }
    }

    pub(super) fn finish(self) -> Series {
        let Self { mut series, total, sums, .. } = self;
        let histograms = total.to_histograms();
        let count = total.count();
        let per_op = |sum: Option<f64>| sum.filter(|_| count > 0).map(|sum| sum / count as f64);
        series.summary = total.summary();
        series.histogram = histograms.histogram;
        series.negative_histogram = histograms.negative_histogram;
        series.cpu_ns_per_op = per_op(sums.cpu_ns);
        series.voluntary_switches_per_op = per_op(sums.voluntary);
        series.involuntary_switches_per_op = per_op(sums.involuntary);
        let elapsed = sums.elapsed_ns.filter(|&ns| ns > 0.0);
        series.cpu_share = sums.cpu_ns.zip(elapsed).map(|(cpu, elapsed)| cpu / elapsed);
        series
    }
}

/// The contributions of the runs behind a series: the series itself, or its parts.
fn parts(series: &Series, offset: u32) -> Vec<Part> {
    if !series.parts.is_empty() {
        let moved = |part: &Part| Part { source: part.source.saturating_add(offset), ..part.clone() };
        return series.parts.iter().map(moved).collect();
    }
    vec![Part {
        source: offset,
        rounds: series.rounds.len() as u32,
        summary: series.summary.clone(),
        cpu_ns_per_op: series.cpu_ns_per_op,
    }]
}
