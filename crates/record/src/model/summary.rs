//! The figures of many samples, limits that a run is asked to keep, and fast reading of structs that contain a flattened [`Summary`].
//!
//! To read a flattened struct, serde keeps all fields as untyped values first. A run has such a struct in every round,
//! and this dominated the time to read a large run. Here one struct lists all the fields and is read at once. serde
//! still does the writing.

use serde::{Deserialize, Deserializer, Serialize};

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

/// Most series of one run. Real runs have up to some thousands; a million would exhaust memory.
pub const MOST_SERIES: usize = 100_000;

/// Implements `Deserialize` for a struct with these fields and a `summary`. Fields that are made of others of the file follow `where`, and
/// those others `of`.
macro_rules! flat {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }) => {
        flat! { $name { $($(#[$attribute])* $field: $kind,)* } of {} where }
    };
    (
        $name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }
        of { $($part:ident: $part_kind:ty,)* } where $($made:ident = $from:expr,)*
    ) => {
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(::serde::Deserialize)]
                struct Flat {
                    $($part: $part_kind,)*
                    $($(#[$attribute])* $field: $kind,)*
                    count: u64,
                    negative: u64,
                    overflow: u64,
                    min: Option<i64>,
                    p50: Option<i64>,
                    p90: Option<i64>,
                    p99: Option<i64>,
                    p999: Option<i64>,
                    max: Option<i64>,
                    mean: Option<f64>,
                    stdev: Option<f64>,
                    ci95: $crate::model::summary::Ci95,
                }
                let Flat { $($part,)* $($field,)* count, negative, overflow, min, p50, p90, p99, p999, max, mean, stdev, ci95 } =
                    Flat::deserialize(deserializer)?;
                let summary = $crate::model::summary::Summary {
                    count, negative, overflow, min, p50, p90, p99, p999, max, mean, stdev, ci95
                };
                $(let $made = $from;)*
                Ok(Self { $($field,)* $($made,)* summary })
            }
        }
    };
}
pub(super) use flat;

/// Whether a figure is left out of the file: it is never 0 where it was counted.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
pub(super) const fn is_zero(figure: &u64) -> bool {
    *figure == 0
}

/// A list without spare capacity: its length is unknown while it is read.
pub(super) fn tight<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut items = Vec::deserialize(deserializer)?;
    items.shrink_to_fit();
    Ok(items)
}

/// At most [`MOST_SERIES`] items. More are refused before they take memory.
pub(super) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a list of at most {MOST_SERIES} series")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(series) = items.next_element()? {
                if all.len() == MOST_SERIES {
                    return Err(serde::de::Error::invalid_length(MOST_SERIES + 1, &self));
                }
                all.push(series);
            }
            all.shrink_to_fit();
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Bounded(std::marker::PhantomData))
}
