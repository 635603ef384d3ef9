//! The CPU frequency governor (Documentation/admin-guide/pm/cpufreq.rst).

use super::condition::Condition;
use super::frequency::Frequency;
use super::set::Conditions;
use super::value::Value;
use crate::cpufreq::Attribute;

static GOVERNOR: Frequency = Frequency {
    name: "governor",
    attribute: Attribute::Governor,
    parse: |typed| {
        let name = typed.trim();
        let wanted = || "expected a name of lower-case letters, digits, - and _ (example: performance)".to_owned();
        Attribute::Governor.accepts(name).then(|| Value::Governor(name.to_owned())).ok_or_else(wanted)
    },
};

impl Condition {
    /// `governor`.
    pub const GOVERNOR: Self = Self::of(&GOVERNOR);
}

impl Conditions {
    /// Requests a CPU frequency governor, on the policies of the requested CPUs, or on all.
    #[must_use]
    pub fn governor(self, name: impl Into<String>) -> Self {
        self.with(Value::Governor(name.into()))
    }

    /// The governor of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_governor(&self) -> Option<&str> {
        if let Value::Governor(name) = self.value(Condition::GOVERNOR)? { Some(name) } else { None }
    }
}
