//! A [`SeriesTally`] builds a [`Series`] from the recorder and the resource usage of each round.
//!
//! Rounds keep their figures only. The samples of all rounds share one [`Distribution`] of a few kilobytes. So hundreds
//! of series fit in a few megabytes.

use crate::distribution::Distribution;
use crate::experiment::Experiment;
use crate::model::{About, Quantity, RoundFigures, Series};
use crate::recorder::Recorder;

/// Resource usage of the measuring thread during one batch, including the probe itself. Unavailable figures are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Elapsed time.
    pub elapsed_ns: u64,
    /// CPU time.
    pub cpu_ns: Option<u64>,
    /// Voluntary context switches.
    pub voluntary: Option<u64>,
    /// Preemptions.
    pub involuntary: Option<u64>,
}

impl Usage {
    /// The sum of both; a figure is known only if both know it.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            elapsed_ns: self.elapsed_ns.saturating_add(other.elapsed_ns),
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
            voluntary: both(self.voluntary, other.voluntary),
            involuntary: both(self.involuntary, other.involuntary),
        }
    }
}

/// The identity of a series, as its creator states it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesId {
    /// The experiment, with its parameters and metrics.
    pub experiment: Experiment,
    /// The subject, for instance `nanosleep`.
    pub subject: String,
    /// Description of the subject.
    pub about: About,
    /// Label of its conditions.
    pub conditions: String,
    /// The measured quantity.
    pub quantity: Quantity,
}

/// The rounds of one series so far.
#[derive(Debug, Clone, Default)]
pub struct SeriesTally {
    total: Distribution,
    usage: Option<Usage>,
    rounds: Vec<RoundFigures>,
}

impl SeriesTally {
    /// A tally without rounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a round: its number from 0, the time from the run's start to its batch, its samples, its usage.
    /// Allocates; do not call it while the clock runs.
    pub fn add_round(&mut self, round: u32, started_ns: u64, recorder: &Recorder, usage: Usage) {
        let distribution = recorder.distribution();
        self.rounds.push(RoundFigures {
            round,
            started_ns,
            summary: distribution.summary(),
            cpu_ns_per_op: per_operation(usage.cpu_ns, distribution.count()),
            involuntary_switches: usage.involuntary,
            competitor_cpu_share: None,
            own_cpu_share: None,
        });
        self.total.merge(&distribution);
        self.usage = Some(self.usage.map_or(usage, |so_far| so_far.plus(usage)));
    }

    /// Adds a round of samples that were taken before, without resource usage. Clears the recorder first.
    pub fn add_samples(
        &mut self,
        (round, started_ns): (u32, u64),
        recorder: &mut Recorder,
        samples: impl IntoIterator<Item = i64>,
    ) {
        recorder.clear();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        self.add_round(round, started_ns, recorder, Usage::default());
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total.count()
    }

    /// All samples.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.total
    }

    /// The rounds so far.
    #[must_use]
    pub fn rounds(&self) -> &[RoundFigures] {
        &self.rounds
    }

    /// The series, without single samples ([`Series::samples`]). Figures per operation are absent without operations.
    #[must_use]
    pub fn to_series(&self, id: SeriesId) -> Series {
        let usage = self.usage.unwrap_or_default();
        let count = self.count();
        let histograms = self.total.to_histograms();
        let share = usage.cpu_ns.filter(|_| usage.elapsed_ns > 0).map(|cpu| cpu as f64 / usage.elapsed_ns as f64);
        Series {
            experiment: id.experiment,
            subject: id.subject,
            about: id.about,
            conditions: id.conditions,
            quantity: id.quantity,
            unit: "ns".into(),
            summary: self.total.summary(),
            cpu_ns_per_op: per_operation(usage.cpu_ns, count),
            cpu_share: share,
            voluntary_switches_per_op: per_operation(usage.voluntary, count),
            involuntary_switches_per_op: per_operation(usage.involuntary, count),
            histogram: histograms.histogram,
            negative_histogram: histograms.negative_histogram,
            samples: None,
            rounds: self.rounds.clone(),
            parts: Vec::new(),
        }
    }
}

fn per_operation(total: Option<u64>, operations: u64) -> Option<f64> {
    total.filter(|_| operations > 0).map(|total| total as f64 / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Typed, wait};
    use proptest::prelude::*;

    fn id() -> SeriesId {
        SeriesId {
            experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
            subject: "nanosleep".into(),
            about: About::default(),
            conditions: "other".into(),
            quantity: Quantity::Overshoot,
        }
    }

    fn usage(elapsed_ns: u64, cpu_ns: u64, voluntary: u64, involuntary: u64) -> Usage {
        Usage { elapsed_ns, cpu_ns: Some(cpu_ns), voluntary: Some(voluntary), involuntary: Some(involuntary) }
    }

    #[test]
    fn rounds_add_up() {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for round in 0..3u32 {
            recorder.clear();
            (0..100).for_each(|value| recorder.record(value + 1000 * i64::from(round)));
            tally.add_round(round, u64::from(round) * 5000, &recorder, usage(1000, 200, 100, u64::from(round)));
        }
        let series = tally.to_series(id());
        assert_eq!(series.summary.count, 300);
        assert_eq!((series.summary.min, series.summary.p50, series.summary.max), (Some(0), Some(1049), Some(2099)));
        assert_eq!((series.cpu_ns_per_op, series.cpu_share), (Some(2.0), Some(0.2)));
        assert_eq!((series.voluntary_switches_per_op, series.involuntary_switches_per_op), (Some(1.0), Some(0.01)));
        assert_eq!(series.rounds.iter().map(|round| round.summary.p50.unwrap()).collect::<Vec<_>>(), [49, 1049, 2049]);
        assert_eq!(series.rounds[2].involuntary_switches, Some(2));
        assert_eq!(series.rounds[2].started_ns, 10_000);
    }

    #[test]
    fn without_operations_there_is_no_cost_per_operation() {
        let mut tally = SeriesTally::new();
        tally.add_round(0, 0, &Recorder::new(), usage(1000, 200, 1, 0));
        let series = tally.to_series(id());
        assert_eq!((series.summary.count, series.cpu_ns_per_op, series.voluntary_switches_per_op), (0, None, None));
        assert_eq!((series.histogram, series.negative_histogram), (None, None));
    }

    #[test]
    fn a_figure_unknown_in_one_round_is_unknown() {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        recorder.record(1);
        tally.add_round(0, 0, &recorder, usage(1000, 200, 1, 0));
        tally.add_round(1, 0, &recorder, Usage { cpu_ns: None, ..usage(1000, 200, 1, 0) });
        let series = tally.to_series(id());
        assert_eq!((series.cpu_ns_per_op, series.voluntary_switches_per_op), (None, Some(1.0)));
    }

    /// Other programs recognise a compressed HdrHistogram V2 by these first bytes (the cookie 0x1c849314).
    #[test]
    fn histograms_are_what_they_say() {
        let mut recorder = Recorder::new();
        (-5..10).for_each(|value| recorder.record(value));
        let histograms = recorder.distribution().to_histograms();
        assert!(histograms.histogram.unwrap().starts_with("HISTF"));
        assert!(histograms.negative_histogram.unwrap().starts_with("HISTF"));
    }

    proptest! {
        #[test]
        fn a_series_gives_its_distribution_back(
            values in prop::collection::vec(prop_oneof![-5000i64..5_000_000_000, any::<i64>()], 0..300)
        ) {
            let mut recorder = Recorder::new();
            values.iter().for_each(|&value| recorder.record(value));
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, &recorder, Usage::default());
            let series = tally.to_series(id());
            let back = Distribution::from_series(&series).unwrap().summary();
            let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-14 * a.abs(),
                (a, b) => a == b,
            };
            prop_assert!(near(back.stdev, series.summary.stdev));
            prop_assert_eq!(&crate::Summary { stdev: series.summary.stdev, ..back }, &series.summary);
        }

        #[test]
        fn damaged_histograms_are_refused_or_read(text in "[A-Za-z0-9+/=]{0,200}", whole in any::<bool>(), at in 0usize..2000, with in any::<u8>()) {
            let mut recorder = Recorder::new();
            (0..1000).for_each(|value| recorder.record(value * 77));
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, &recorder, Usage::default());
            let mut series = tally.to_series(id());
            if whole {
                series.histogram = Some(text);
                prop_assert!(Distribution::from_series(&series).is_err());
            } else {
                let mut bytes = series.histogram.unwrap().into_bytes();
                let at = at % bytes.len();
                bytes[at] = with;
                series.histogram = Some(String::from_utf8_lossy(&bytes).into_owned());
                if let Ok(read) = Distribution::from_series(&series) {
                    prop_assert_eq!(read.count(), 1000);
                }
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut recorder = Recorder::new();
        (0..10).for_each(|value| recorder.record(value));
        let mut tally = SeriesTally::new();
        tally.add_round(0, 0, &recorder, Usage::default());
        let good = tally.to_series(id());
        assert!(Distribution::from_series(&good).is_ok());
        let mut bad = good.clone();
        bad.summary.count = 11;
        let error = Distribution::from_series(&bad).unwrap_err().to_string();
        assert!(error.contains("nanosleep") && error.contains("count 11"), "{error}");
        let mut bad = good;
        bad.summary.mean = None;
        assert!(Distribution::from_series(&bad).is_err());
    }
}
