//! The lowest frequency allowed (`scaling_min_freq`).

use super::condition::Condition;
use super::frequency::{FREQUENCY, Frequency, limit};
use super::set::Conditions;
use super::value::{Frequency as Limit, Value};
use crate::cpufreq::Attribute;

static MIN_FREQUENCY: Frequency = Frequency {
    name: "min-frequency",
    attribute: Attribute::MinFrequency,
    parse: |typed| match (typed, limit(typed)) {
        ("max", _) => Ok(Value::MinFrequency(Limit::Highest)),
        (_, Ok(limit)) => Ok(Value::MinFrequency(limit)),
        (_, Err(_)) => Err(format!("expected max, or {FREQUENCY}")),
    },
};

impl Condition {
    /// `min-frequency`.
    pub const MIN_FREQUENCY: Self = Self::of(&MIN_FREQUENCY);
}

impl Conditions {
    /// Requests a lowest frequency, in kHz.
    #[must_use]
    pub fn min_frequency_khz(self, khz: u64) -> Self {
        self.with(Value::MinFrequency(Limit::Khz(khz)))
    }

    /// Requests the highest allowed frequency as the lowest one.
    #[must_use]
    pub fn min_frequency_at_max(self) -> Self {
        self.with(Value::MinFrequency(Limit::Highest))
    }
}
