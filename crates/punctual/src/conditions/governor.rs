//! `--governor`: the CPU frequency governor (Documentation/admin-guide/pm/cpufreq.rst).

use super::condition::{Condition, Takes};
use super::frequency::Frequency;
use super::set::Conditions;
use crate::cpufreq::Attribute;

static GOVERNOR: Frequency = Frequency {
    name: "governor",
    help: "CPU frequency governor, on the measured CPUs or on all; restored on exit",
    takes: Takes::Value("NAME"),
    attribute: Attribute::Governor,
    parse: |typed| {
        let name = typed.trim();
        let wanted = || "expected a name of lower-case letters, digits, - and _ (example: performance)".to_owned();
        Attribute::Governor.accepts(name).then(|| name.to_owned()).ok_or_else(wanted)
    },
    set: |guard, name| guard.set_governor(name),
};

impl Condition {
    /// `--governor`.
    pub const GOVERNOR: Self = Self::of(&GOVERNOR);
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
