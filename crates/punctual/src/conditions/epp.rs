//! `--epp`: the energy-performance preference of processors that choose their frequency themselves.

use super::condition::{Applying, Condition, Definition, Machine, Probe, Scope, Takes};
use super::frequency;
use super::reason::Reason;
use super::set::Conditions;
use crate::cpufreq::Attribute;

#[derive(Debug)]
struct Epp;

impl Condition {
    /// `--epp`.
    pub const EPP: Self = Self::of(&Epp);
}

impl Conditions {
    /// Requests an energy-performance preference: a word that the policy offers, or 0 (performance) to 255 (energy).
    #[must_use]
    pub fn epp(self, preference: impl Into<String>) -> Self {
        self.with(Condition::EPP, preference)
    }

    /// The preference of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_epp(&self) -> Option<&str> {
        self.value(Condition::EPP)
    }
}

impl Definition for Epp {
    fn name(&self) -> &'static str {
        "epp"
    }

    fn help(&self) -> &'static str {
        "Energy-performance preference: a name, such as balance_performance, or 0 to 255"
    }

    fn takes(&self) -> Takes {
        Takes::Value("PREFERENCE")
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        let preference = typed.trim();
        let wanted = || "expected a name, or an integer from 0 to 255 (example: balance_performance)".to_owned();
        let is_number = preference.bytes().all(|byte| byte.is_ascii_digit());
        let fits = if is_number { preference.parse::<u8>().is_ok() } else { Attribute::Preference.accepts(preference) };
        fits.then(|| preference.to_owned()).ok_or_else(wanted)
    }

    fn read(&self, machine: &Machine) -> Option<String> {
        frequency::read(Attribute::Preference, machine)
    }

    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason> {
        frequency::apply(value, Attribute::Preference, applying, |guard| guard.set_preference(value))
    }

    fn probe(&self, machine: &Machine) -> Probe {
        frequency::probe(Attribute::Preference, machine)
    }

    fn phrase(&self, value: &str) -> String {
        format!("EPP {value}")
    }

    fn code(&self, value: &str) -> Option<String> {
        Some(format!("echo {value} | tee /sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference"))
    }

    fn price(&self, _: &str) -> Option<String> {
        Some(frequency::PRICE.into())
    }

    fn if_lost(&self) -> &'static str {
        frequency::IF_LOST
    }
}
