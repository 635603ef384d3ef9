//! A wait of a given length.

use serde::{Deserialize, Serialize};

use super::metrics::Typed;

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// The duration, or the distance of the deadline.
    pub asked_ns: i64,
    /// From one signal to the next, where signals interrupt the waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<i64>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// What a call of coarse resolution makes of the duration asked; equal to it where the call takes nanoseconds.
        effective_ns: i64 => same,
        /// Share of the waits whose first call a signal ended before its time.
        cut_short_share: f64 => mean,
        /// What that call says is left, minus what is left by the clock; median.
        remainder_error_ns: i64 => mean,
        /// Share of the waits given up: interrupted again and again, they lasted ten times as long as asked.
        given_up_share: f64 => mean,
    }
}

impl Parameters {
    /// A wait that no signal interrupts.
    #[must_use]
    pub const fn asking(asked_ns: i64) -> Self {
        Self { asked_ns, interrupt_ns: None }
    }
}

impl Typed<Parameters, Metrics> {
    /// What a call of coarse resolution makes of the duration; `None` where it waits as long as asked.
    #[must_use]
    pub fn rounds_to(&self) -> Option<i64> {
        self.metrics.effective_ns.filter(|&ns| ns > self.parameters.asked_ns)
    }
}
