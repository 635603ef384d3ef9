//! `--min-frequency`: the lowest frequency allowed (`scaling_min_freq`).

use super::condition::{Condition, Takes};
use super::frequency::{FREQUENCY, Frequency, MAX, format_frequency, parse_frequency};
use super::set::Conditions;
use crate::cpufreq::Attribute;

static MIN_FREQUENCY: Frequency = Frequency {
    name: "min-frequency",
    help: "Lowest CPU frequency; without a value, the highest allowed (example: 2.2GHz)",
    takes: Takes::OptionalValue { name: "FREQ", default: MAX },
    attribute: Attribute::MinFrequency,
    parse: |typed| match (typed, parse_frequency(typed)) {
        (MAX, _) => Ok(MAX.into()),
        (_, Some(khz)) => Ok(format_frequency(khz)),
        (_, None) => Err(format!("expected max, or {FREQUENCY}")),
    },
    set: |guard, value| match parse_frequency(value) {
        Some(khz) => guard.set_min_khz(khz),
        None => guard.set_min_to_max(),
    },
};

impl Condition {
    /// `--min-frequency`.
    pub const MIN_FREQUENCY: Self = Self::of(&MIN_FREQUENCY);
}

impl Conditions {
    /// Requests a lowest frequency, in kHz.
    #[must_use]
    pub fn min_frequency_khz(self, khz: u64) -> Self {
        self.with(Condition::MIN_FREQUENCY, format_frequency(khz))
    }

    /// Requests the highest allowed frequency as the lowest one.
    #[must_use]
    pub fn min_frequency_at_max(self) -> Self {
        self.with(Condition::MIN_FREQUENCY, MAX)
    }
}
