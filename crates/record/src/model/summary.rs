//! The figures of many samples, and limits that a run is asked to keep.

use serde::{Deserialize, Serialize};

use crate::experiment::words;

/// The figures of many samples. An absent percentile is one that too few samples support.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Number of samples, overflowed ones included.
    pub count: u64,
    /// Samples below zero.
    pub negative: u64,
    /// Samples too large (or too small) for the histogram. They count in `count`, `min`, `max`, `mean` and the
    /// ranks of percentiles; only their exact place is lost.
    pub overflow: u64,
    /// The smallest, exact.
    pub min: Option<i64>,
    /// Median.
    pub p50: Option<i64>,
    /// 90th percentile.
    pub p90: Option<i64>,
    /// 99th percentile.
    pub p99: Option<i64>,
    /// 99.9th percentile.
    pub p999: Option<i64>,
    /// The largest, exact.
    pub max: Option<i64>,
    /// Arithmetic mean, exact; never to be shown alone.
    pub mean: Option<f64>,
    /// Sample standard deviation.
    pub stdev: Option<f64>,
    /// Where the true percentiles lie, with 95 % confidence.
    pub ci95: Ci95,
}

/// 95 % confidence intervals by order statistics: no distribution is assumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ci95 {
    /// The interval of the median.
    pub p50: Option<Interval>,
    /// The interval of the 99th percentile.
    pub p99: Option<Interval>,
}

/// A closed interval. Both ends are observed values, or the outer ends of the histogram's buckets that they fall into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    pub low: i64,
    /// Upper end.
    pub high: i64,
}

/// Percentiles of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns; absent below 100 values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The largest, ns.
    pub max_ns: u64,
}

words! {
    /// A figure of a series that a limit can be about.
    pub enum Key {
        /// The smallest.
        Min = "min",
        /// Median.
        P50 = "p50",
        /// 90th percentile.
        P90 = "p90",
        /// 99th percentile.
        P99 = "p99",
        /// 99.9th percentile.
        P999 = "p99.9",
        /// The largest.
        Max = "max",
        /// Arithmetic mean.
        Mean = "mean",
    }
}

impl Key {
    /// The key of this name, or of another that people give it: `p99`, `median`, `p999`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "median" => Some(Self::P50),
            "p999" => Some(Self::P999),
            _ => Self::ALL.iter().find(|key| key.name() == name).copied(),
        }
    }

    /// The figure in ns, if the samples support it.
    #[must_use]
    pub fn figure(self, summary: &Summary) -> Option<f64> {
        let figure = match self {
            Self::Min => summary.min,
            Self::P50 => summary.p50,
            Self::P90 => summary.p90,
            Self::P99 => summary.p99,
            Self::P999 => summary.p999,
            Self::Max => summary.max,
            Self::Mean => return summary.mean.filter(|mean| mean.is_finite()),
        };
        figure.map(|ns| ns as f64)
    }
}

/// A limit: the run fails if the figure of a series is above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// The figure.
    pub figure: Key,
    /// Its subjects, with `*` for any letters; absent: all that measure lateness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The largest value that is accepted, in ns.
    pub above_ns: i64,
}

/// `p99 of futex > 200us`.
impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
            .into_iter()
            .find(|(size, _)| self.above_ns != 0 && self.above_ns % size == 0)
            .map_or((self.above_ns, "ns"), |(size, unit)| (self.above_ns / size, unit));
        f.write_str(self.figure.name())?;
        if let Some(subject) = &self.subject {
            write!(f, " of {subject}")?;
        }
        write!(f, " > {number}{unit}")
    }
}
