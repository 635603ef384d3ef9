//! The energy-performance preference of processors that choose their frequency themselves.

use super::condition::Condition;
use super::frequency::Frequency;
use super::set::Conditions;
use super::value::Value;
use crate::cpufreq::Attribute;

static EPP: Frequency = Frequency {
    name: "epp",
    attribute: Attribute::Preference,
    parse: |typed| {
        let preference = typed.trim();
        let wanted = || "expected a name, or an integer from 0 to 255 (example: balance_performance)".to_owned();
        let is_number = preference.bytes().all(|byte| byte.is_ascii_digit());
        let fits = if is_number { preference.parse::<u8>().is_ok() } else { Attribute::Preference.accepts(preference) };
        fits.then(|| Value::Epp(preference.to_owned())).ok_or_else(wanted)
    },
};

impl Condition {
    /// `epp`.
    pub const EPP: Self = Self::of(&EPP);
}

impl Conditions {
    /// Requests an energy-performance preference: a word that the policy offers, or 0 (performance) to 255 (energy).
    #[must_use]
    pub fn epp(self, preference: impl Into<String>) -> Self {
        self.with(Value::Epp(preference.into()))
    }

    /// The preference of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_epp(&self) -> Option<&str> {
        if let Value::Epp(preference) = self.value(Condition::EPP)? { Some(preference) } else { None }
    }
}
