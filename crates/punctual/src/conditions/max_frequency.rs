//! `--max-frequency`: the highest frequency allowed (`scaling_max_freq`).

use super::condition::{Applying, Condition, Definition, Machine, Probe, Scope, Takes, Value, spaced};
use super::frequency;
use super::reason::Reason;
use super::set::Conditions;
use crate::cpufreq::Attribute;

#[derive(Debug)]
struct MaxFrequency;

impl Condition {
    /// `--max-frequency`.
    pub const MAX_FREQUENCY: Self = Self::of(&MaxFrequency);
}

impl Conditions {
    /// Requests a highest frequency, in kHz.
    #[must_use]
    pub fn max_frequency_khz(self, khz: u64) -> Self {
        self.with(Condition::MAX_FREQUENCY, frequency::format_frequency(khz))
    }
}

impl Definition for MaxFrequency {
    fn name(&self) -> &'static str {
        "max-frequency"
    }

    fn help(&self) -> &'static str {
        "Highest CPU frequency (example: 2.2GHz)"
    }

    fn takes(&self) -> Takes {
        Takes::Value("FREQ")
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        let khz = frequency::parse_frequency(typed).ok_or_else(|| format!("expected {}", frequency::FREQUENCY))?;
        Ok(frequency::format_frequency(khz))
    }

    fn read(&self, machine: &Machine) -> Option<String> {
        frequency::read_frequency(Attribute::MaxFrequency, machine)
    }

    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let khz = frequency::parse_frequency(value)
            .ok_or_else(|| Reason::new(format!("{value} is no frequency"), frequency::FREQUENCY))?;
        frequency::apply(value, Attribute::MaxFrequency, applying, |guard| guard.set_max_khz(khz))
    }

    fn probe(&self, machine: &Machine) -> Probe {
        frequency::probe(Attribute::MaxFrequency, machine)
    }

    fn exact(&self, value: &str) -> Value {
        frequency::exact(value)
    }

    fn phrase(&self, value: &str) -> String {
        format!("maximum frequency {}", spaced(value))
    }

    fn code(&self, value: &str) -> Option<String> {
        let khz = frequency::parse_frequency(value)?;
        Some(format!("echo {khz} | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq"))
    }

    fn price(&self, _: &str) -> Option<String> {
        Some(frequency::PRICE.into())
    }

    fn if_lost(&self) -> &'static str {
        frequency::IF_LOST
    }
}
