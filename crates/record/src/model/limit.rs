//! Limits that a run was asked to keep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Summary;

/// A figure of a series that a limit can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Key {
    /// The smallest.
    #[serde(rename = "min")]
    Min,
    /// Median.
    #[serde(rename = "p50")]
    P50,
    /// 90th percentile.
    #[serde(rename = "p90")]
    P90,
    /// 99th percentile.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    P999,
    /// The largest.
    #[serde(rename = "max")]
    Max,
    /// Arithmetic mean.
    #[serde(rename = "mean")]
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

    /// The figure in ns, if the samples support it.
    #[must_use]
    pub fn of(self, summary: &Summary) -> Option<f64> {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
