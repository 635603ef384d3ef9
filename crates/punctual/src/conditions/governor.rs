//! `--governor`: the CPU frequency governor (Documentation/admin-guide/pm/cpufreq.rst).

use super::condition::{Applying, Condition, Definition, Machine, Probe, Scope, Takes};
use super::frequency;
use super::reason::Reason;
use super::set::Conditions;
use crate::cpufreq::Attribute;

#[derive(Debug)]
struct Governor;

impl Condition {
    /// `--governor`.
    pub const GOVERNOR: Self = Self::of(&Governor);
}

impl Conditions {
    /// Requests a CPU frequency governor, on the policies of the requested CPUs, or on all.
    #[must_use]
    pub fn governor(self, name: impl Into<String>) -> Self {
        self.with(Condition::GOVERNOR, name)
    }

    /// The governor of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_governor(&self) -> Option<&str> {
        self.value(Condition::GOVERNOR)
    }
}

impl Definition for Governor {
    fn name(&self) -> &'static str {
        "governor"
    }

    fn help(&self) -> &'static str {
        "CPU frequency governor, on the CPUs of --cpu or on all; restored on exit"
    }

    fn takes(&self) -> Takes {
        Takes::Value("NAME")
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        let name = typed.trim();
        let wanted = || "expected a name of lower-case letters, digits, - and _ (example: performance)".to_owned();
        Attribute::Governor.accepts(name).then(|| name.to_owned()).ok_or_else(wanted)
    }

    fn read(&self, machine: &Machine) -> Option<String> {
        frequency::read(Attribute::Governor, machine)
    }

    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason> {
        frequency::apply(value, Attribute::Governor, applying, |guard| guard.set_governor(value))
    }

    fn probe(&self, machine: &Machine) -> Probe {
        frequency::probe(Attribute::Governor, machine)
    }

    fn phrase(&self, value: &str) -> String {
        format!("governor {value}")
    }

    fn code(&self, value: &str) -> Option<String> {
        Some(format!("echo {value} | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"))
    }

    fn price(&self, _: &str) -> Option<String> {
        Some(frequency::PRICE.into())
    }

    fn if_lost(&self) -> &'static str {
        frequency::IF_LOST
    }
}
