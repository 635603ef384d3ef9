//! Limits on figures, for builds that must fail if a machine becomes later: `p99=200us`.
//!
//! Takes limits and a run. Returns the series that exceed them, and those that cannot be judged: a percentile without
//! enough samples never counts as kept.

use std::fmt;

use punctual_record::{Run, Summary};

/// A figure on which a limit can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The smallest.
    Min,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The largest.
    Max,
    /// Arithmetic mean.
    Mean,
}

impl Key {
    /// All keys with the names they go by, the usual one first.
    const NAMES: [(Self, &'static [&'static str]); 7] = [
        (Self::Min, &["min"]),
        (Self::P50, &["p50", "median"]),
        (Self::P90, &["p90"]),
        (Self::P99, &["p99"]),
        (Self::P999, &["p99.9", "p999"]),
        (Self::Max, &["max"]),
        (Self::Mean, &["mean"]),
    ];

    /// All keys, from the smallest figure on.
    pub const ALL: [Self; 7] = [Self::Min, Self::P50, Self::P90, Self::P99, Self::P999, Self::Max, Self::Mean];

    /// The key of this name: `p99`, `median`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(key, _)| *key)
    }

    /// Its usual name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(key, _)| *key == self).map_or("", |(_, names)| names[0])
    }

    fn of(self, summary: &Summary) -> Option<f64> {
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

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit: a figure of any series above it is a failure; one equal to it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Which figure.
    pub key: Key,
    /// The largest value that is accepted, in ns.
    pub limit_ns: i64,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
            .into_iter()
            .find(|(size, _)| self.limit_ns != 0 && self.limit_ns % size == 0)
            .map_or((self.limit_ns, "ns"), |(size, unit)| (self.limit_ns / size, unit));
        write!(f, "{}={number}{unit}", self.key)
    }
}

/// A series beyond a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceeded {
    /// Index in `Run::series`.
    pub series: usize,
    /// Which figure.
    pub key: Key,
    /// The limit in ns.
    pub limit_ns: i64,
    /// The figure in ns: an integer for all but the mean.
    pub value_ns: f64,
}

/// A series on which a limit cannot be judged, since the figure is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unjudged {
    /// Index in `Run::series`.
    pub series: usize,
    /// Which figure.
    pub key: Key,
    /// The limit in ns.
    pub limit_ns: i64,
    /// How many samples the series has.
    pub count: u64,
}

/// What became of the limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Beyond the limit.
    pub exceeded: Vec<Exceeded>,
    /// Cannot be judged.
    pub unjudged: Vec<Unjudged>,
    /// Figures that were judged and kept their limit.
    pub kept: usize,
}

impl Verdict {
    /// Whether at least one figure was judged, and all were, and none exceeds its limit.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.kept > 0 && self.exceeded.is_empty() && self.unjudged.is_empty()
    }
}

/// Judges every series of `run` by every limit.
#[must_use]
pub fn evaluate(thresholds: &[Threshold], run: &Run) -> Verdict {
    let mut verdict = Verdict::default();
    for &Threshold { key, limit_ns } in thresholds {
        for (series, its) in run.series.iter().enumerate() {
            match key.of(&its.summary) {
                None => verdict.unjudged.push(Unjudged { series, key, limit_ns, count: its.summary.count }),
                Some(value_ns) if value_ns > limit_ns as f64 => {
                    verdict.exceeded.push(Exceeded { series, key, limit_ns, value_ns });
                }
                Some(_) => verdict.kept += 1,
            }
        }
    }
    verdict
}

mod phrases;
pub use phrases::phrases;
