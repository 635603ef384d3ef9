//! `--max-frequency`: the highest frequency allowed (`scaling_max_freq`).

use super::condition::{Condition, Takes};
use super::frequency::{FREQUENCY, Frequency, format_frequency, parse_frequency};
use super::set::Conditions;
use crate::cpufreq::Attribute;

fn khz(typed: &str) -> Result<u64, String> {
    parse_frequency(typed).ok_or_else(|| format!("expected {FREQUENCY}"))
}

static MAX_FREQUENCY: Frequency = Frequency {
    name: "max-frequency",
    help: "Highest CPU frequency (example: 2.2GHz)",
    takes: Takes::Value("FREQ"),
    attribute: Attribute::MaxFrequency,
    parse: |typed| khz(typed).map(format_frequency),
    set: |guard, value| khz(value).map_or(Ok(()), |khz| guard.set_max_khz(khz)),
};

impl Condition {
    /// `--max-frequency`.
    pub const MAX_FREQUENCY: Self = Self::of(&MAX_FREQUENCY);
}

impl Conditions {
    /// Requests a highest frequency, in kHz.
    #[must_use]
    pub fn max_frequency_khz(self, khz: u64) -> Self {
        self.with(Condition::MAX_FREQUENCY, format_frequency(khz))
    }
}
