//! `--min-frequency`: the lowest frequency allowed (`scaling_min_freq`).

use super::condition::{Applying, Condition, Definition, Machine, Probe, Scope, Takes, Value, spaced};
use super::frequency;
use super::reason::Reason;
use super::set::Conditions;
use crate::cpufreq::Attribute;

#[derive(Debug)]
struct MinFrequency;

impl Condition {
    /// `--min-frequency`.
    pub const MIN_FREQUENCY: Self = Self::of(&MinFrequency);
}

impl Conditions {
    /// Requests a lowest frequency, in kHz.
    #[must_use]
    pub fn min_frequency_khz(self, khz: u64) -> Self {
        self.with(Condition::MIN_FREQUENCY, frequency::format_frequency(khz))
    }

    /// Requests the highest allowed frequency as the lowest one.
    #[must_use]
    pub fn min_frequency_at_max(self) -> Self {
        self.with(Condition::MIN_FREQUENCY, MAX)
    }
}

/// The highest frequency within the limits.
const MAX: &str = "max";

impl Definition for MinFrequency {
    fn name(&self) -> &'static str {
        "min-frequency"
    }

    fn help(&self) -> &'static str {
        "Lowest CPU frequency; without a value, the highest allowed (example: --min-frequency=2.2GHz)"
    }

    fn takes(&self) -> Takes {
        Takes::OptionalValue { name: "FREQ", default: MAX }
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        if typed == MAX {
            return Ok(MAX.into());
        }
        let khz =
            frequency::parse_frequency(typed).ok_or_else(|| format!("expected max, or {}", frequency::FREQUENCY))?;
        Ok(frequency::format_frequency(khz))
    }

    fn read(&self, machine: &Machine) -> Option<String> {
        frequency::read_frequency(Attribute::MinFrequency, machine)
    }

    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason> {
        frequency::apply(value, Attribute::MinFrequency, applying, |guard| match frequency::parse_frequency(value) {
            Some(khz) => guard.set_min_khz(khz),
            None => guard.set_min_to_max(),
        })
    }

    fn probe(&self, machine: &Machine) -> Probe {
        frequency::probe(Attribute::MinFrequency, machine)
    }

    fn exact(&self, value: &str) -> Value {
        frequency::exact(value)
    }

    fn phrase(&self, value: &str) -> String {
        match value {
            MAX => "minimum frequency at the maximum".into(),
            _ => format!("minimum frequency {}", spaced(value)),
        }
    }

    fn code(&self, value: &str) -> Option<String> {
        let folder = "/sys/devices/system/cpu/cpufreq/policy*";
        Some(match frequency::parse_frequency(value) {
            Some(khz) => format!("echo {khz} | tee {folder}/scaling_min_freq"),
            None => format!("for p in {folder}; do cat $p/scaling_max_freq > $p/scaling_min_freq; done"),
        })
    }

    fn price(&self, _: &str) -> Option<String> {
        Some(frequency::PRICE.into())
    }

    fn if_lost(&self) -> &'static str {
        frequency::IF_LOST
    }
}
