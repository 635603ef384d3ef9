//! Percentiles of a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Percentiles of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// How many.
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
