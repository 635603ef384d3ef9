//! The figures of many samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of many samples. An absent percentile is one that too few samples support.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many samples, overflowed ones included.
    pub count: u64,
    /// How many of them were below zero.
    pub negative: u64,
    /// How many were too large (or too small) for the histogram. They count in `count`, `min`, `max`, `mean` and the
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ci95 {
    /// Of the median.
    pub p50: Option<Interval>,
    /// Of the 99th percentile.
    pub p99: Option<Interval>,
}

/// A closed interval. Both ends are observed values, or the outer ends of the histogram's buckets that they fall into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: i64,
    /// Upper end.
    pub high: i64,
}
