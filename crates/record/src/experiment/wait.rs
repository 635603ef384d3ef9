//! A wait of a given length.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::typed::Typed;

/// What was asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameters {
    /// The duration, or the distance of the deadline.
    pub asked_ns: i64,
}

metrics! {
    /// What came out beside the samples.
    pub struct Metrics {
        /// What a call of coarse resolution makes of the duration asked; equal to it where the call takes nanoseconds.
        effective_ns: i64 => same,
    }
}

impl Typed<Parameters, Metrics> {
    /// What a call of coarse resolution makes of the duration; `None` where it waits as long as asked.
    #[must_use]
    pub fn rounds_to(&self) -> Option<i64> {
        self.metrics.effective_ns.filter(|&ns| ns > self.parameters.asked_ns)
    }
}
