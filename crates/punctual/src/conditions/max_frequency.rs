//! The highest frequency allowed (`scaling_max_freq`).

use super::condition::Condition;
use super::frequency::{Frequency, limit};
use super::set::Conditions;
use super::value::{Frequency as Limit, Value};
use crate::cpufreq::Attribute;

static MAX_FREQUENCY: Frequency = Frequency {
    name: "max-frequency",
    attribute: Attribute::MaxFrequency,
    parse: |typed| limit(typed).map(Value::MaxFrequency),
};

impl Condition {
    /// `max-frequency`.
    pub const MAX_FREQUENCY: Self = Self::of(&MAX_FREQUENCY);
}

impl Conditions {
    /// Requests a highest frequency, in kHz.
    #[must_use]
    pub fn max_frequency_khz(self, khz: u64) -> Self {
        self.with(Value::MaxFrequency(Limit::Khz(khz)))
    }
}
