//! The settings of CPU frequency as conditions: the lowest and the highest frequency allowed (`scaling_min_freq`,
//! `scaling_max_freq`), the energy-performance preference of processors that choose their frequency themselves, and the governor.
//! Each is a [`FrequencyCondition`]. One guard holds the settings, on the policies of the requested CPUs, or on all.

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::set::Conditions;
use super::surroundings::{Reason, Surroundings};
use super::{Applying, Condition, Definition, Facts, Frequency, Held, InvalidValue, Probe, Scope, Target, Value, cpu};
use crate::cpu_set::CpuSet;
use crate::cpufreq::{Attribute, Error, FREQUENCY, GovernorGuard, format_frequency, parse_frequency};
use crate::need::Need;
use crate::restore::{LockWait, NotRestored, files};

/// Longest wait for another program that holds the settings; it may be about to end.
const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

/// Sets a value with a guard of the policies.
type Setter<'a> = Box<dyn FnOnce(&mut GovernorGuard) -> Result<(), Error> + 'a>;

/// A setting of CPU frequency, as a condition.
struct FrequencyCondition {
    attribute: Attribute,
    /// [`Definition::parse`].
    parse: fn(&str) -> Result<Value, InvalidValue>,
}

impl Definition for FrequencyCondition {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        (self.parse)(typed)
    }

    /// The values of the policies of the thread's CPUs.
    fn read(&self, target: &Target) -> Option<Value> {
        let cpus = cpu::current(target.thread).ok()?;
        let shown: BTreeSet<String> = target.cpufreq().shown(self.attribute, &cpus).into_iter().collect();
        if shown.is_empty() {
            return None;
        }
        let limit = || {
            let all: Vec<u64> = shown.iter().filter_map(|khz| khz.parse().ok()).collect();
            match all[..] {
                [] => None,
                [khz] => Some(Frequency::Khz(khz)),
                _ => Some(Frequency::Mixed(all)),
            }
        };
        let names = || shown.iter().cloned().collect::<Vec<_>>().join("/");
        match self.attribute {
            Attribute::MinFrequency => limit().map(Value::MinFrequency),
            Attribute::MaxFrequency => limit().map(Value::MaxFrequency),
            Attribute::Preference => Some(Value::Epp(names())),
            _ => Some(Value::Governor(names())),
        }
    }

    /// Whether the file exists and this user may write to it.
    fn probe(&self, target: &Target) -> Probe {
        let found = || {
            let cpufreq = target.cpufreq();
            let policies = cpufreq.policies()?;
            let first = policies.first().map_or(0, |policy| policy.number);
            let path = cpufreq.file(first, self.attribute);
            if !path.exists() {
                return Err(Reason::new(format!("there is no {}", path.display()), Need::AttributeOfDriver));
            }
            Ok(files::writable(&path)?)
        };
        Probe::Found(found())
    }

    /// Sets it with the guard of an earlier condition of the same set, if there is one.
    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let (condition, value, attribute) = (applying.condition, applying.value, self.attribute);
        let set: Setter<'_> = match value {
            Value::MinFrequency(Frequency::Khz(khz)) => Box::new(|guard| guard.set_min_khz(*khz)),
            Value::MinFrequency(Frequency::Highest) => Box::new(GovernorGuard::set_min_to_max),
            Value::MaxFrequency(Frequency::Khz(khz)) => Box::new(|guard| guard.set_max_khz(*khz)),
            Value::Epp(name) => Box::new(|guard| guard.set_preference(name)),
            Value::Governor(name) => Box::new(|guard| guard.set_governor(name)),
            _ => return Err(Applying::read_only()),
        };
        let form = if matches!(attribute, Attribute::MinFrequency | Attribute::MaxFrequency) {
            Need::FrequencyInRange
        } else {
            Need::SettingForm
        };
        condition.parse(&value.to_string()).map_err(|_| Reason::new(format!("invalid {condition} '{value}'"), form))?;
        let earlier = applying.earlier::<FrequencySetting>().map(|earlier| Rc::clone(&earlier.guard));
        let guard = match earlier {
            Some(guard) => guard,
            None => {
                let cpus = applying.cpus().map_or(&[][..], CpuSet::as_slice);
                let guard = applying.target.cpufreq().guard(cpus, PATIENCE)?;
                applying.notes.extend_from_slice(guard.replayed());
                Rc::new(RefCell::new(guard))
            }
        };
        let outcome = set(&mut guard.borrow_mut());
        // If one policy refuses, others may be set already.
        let shown = guard.borrow().shown(attribute);
        applying.hold(FrequencySetting { guard, attribute, set: shown });
        Ok(outcome?)
    }
}

/// A limit from its text form.
fn parse_limit(typed: &str) -> Result<Frequency, InvalidValue> {
    parse_frequency(typed).map(Frequency::Khz).ok_or(InvalidValue::Expected(FREQUENCY))
}

/// One applied setting. Undoing the last one of a guard restores all of them, because they depend on each other.
#[derive(Debug)]
struct FrequencySetting {
    guard: Rc<RefCell<GovernorGuard>>,
    attribute: Attribute,
    /// The policies, with the value set.
    set: Vec<(usize, String)>,
}

impl Held for FrequencySetting {
    fn lost(&self) -> Option<String> {
        let now = self.guard.borrow().shown(self.attribute);
        self.set.iter().find_map(|(policy, value)| {
            let now = now.iter().find(|(number, _)| number == policy).map_or("offline", |(_, now)| now);
            let shown = || match (self.attribute, now.parse()) {
                (Attribute::MinFrequency | Attribute::MaxFrequency, Ok(khz)) => format_frequency(khz),
                _ => now.to_owned(),
            };
            (now != value).then(|| format!("{} (policy{policy})", shown()))
        })
    }

    fn renew(&mut self, _: &LazyCell<Surroundings>) -> Result<(), Reason> {
        let guard = self.guard.borrow();
        self.set.iter().try_for_each(|(policy, value)| guard.rewrite_on(*policy, self.attribute, value))?;
        Ok(())
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        Rc::into_inner(self.guard).map(|guard| guard.into_inner().restore()).unwrap_or_default()
    }
}

const MIN_FREQUENCY: FrequencyCondition = FrequencyCondition {
    attribute: Attribute::MinFrequency,
    parse: |typed| match (typed, parse_limit(typed)) {
        ("max", _) => Ok(Value::MinFrequency(Frequency::Highest)),
        (_, Ok(limit)) => Ok(Value::MinFrequency(limit)),
        (_, Err(_)) => Err(InvalidValue::MaxOrFrequency),
    },
};

impl Condition {
    /// `min-frequency`.
    pub const MIN_FREQUENCY: Self =
        Self(&Facts { name: "min-frequency", scope: Scope::Machine, definition: &MIN_FREQUENCY });
}

impl Conditions {
    /// Requests a lowest frequency, in kHz.
    pub fn min_frequency_khz(self, khz: u64) -> Self {
        self.with(Value::MinFrequency(Frequency::Khz(khz)))
    }

    /// Requests the highest allowed frequency as the lowest one.
    pub fn min_frequency_at_max(self) -> Self {
        self.with(Value::MinFrequency(Frequency::Highest))
    }
}

const MAX_FREQUENCY: FrequencyCondition = FrequencyCondition {
    attribute: Attribute::MaxFrequency,
    parse: |typed| parse_limit(typed).map(Value::MaxFrequency),
};

impl Condition {
    /// `max-frequency`.
    pub const MAX_FREQUENCY: Self =
        Self(&Facts { name: "max-frequency", scope: Scope::Machine, definition: &MAX_FREQUENCY });
}

impl Conditions {
    /// Requests a highest frequency, in kHz.
    pub fn max_frequency_khz(self, khz: u64) -> Self {
        self.with(Value::MaxFrequency(Frequency::Khz(khz)))
    }
}

const EPP: FrequencyCondition = FrequencyCondition {
    attribute: Attribute::Preference,
    parse: |typed| {
        let preference = typed.trim();
        let wanted = InvalidValue::Expected("a name, or an integer from 0 to 255 (example: balance_performance)");
        let is_number = preference.bytes().all(|byte| byte.is_ascii_digit());
        let fits = if is_number { preference.parse::<u8>().is_ok() } else { Attribute::Preference.accepts(preference) };
        fits.then(|| Value::Epp(preference.to_owned())).ok_or(wanted)
    },
};

impl Condition {
    /// `epp`.
    pub const EPP: Self = Self(&Facts { name: "epp", scope: Scope::Machine, definition: &EPP });
}

impl Conditions {
    /// Requests an energy-performance preference: a word that the policy offers, or 0 (performance) to 255 (energy).
    pub fn epp(self, preference: impl Into<String>) -> Self {
        self.with(Value::Epp(preference.into()))
    }

    /// The preference of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_epp(&self) -> Option<&str> {
        if let Value::Epp(preference) = self.value(Condition::EPP)? { Some(preference) } else { None }
    }
}

const GOVERNOR: FrequencyCondition = FrequencyCondition {
    attribute: Attribute::Governor,
    parse: |typed| {
        let name = typed.trim();
        let wanted = InvalidValue::Expected("a name of lower-case letters, digits, - and _ (example: performance)");
        Attribute::Governor.accepts(name).then(|| Value::Governor(name.to_owned())).ok_or(wanted)
    },
};

impl Condition {
    /// `governor`.
    pub const GOVERNOR: Self = Self(&Facts { name: "governor", scope: Scope::Machine, definition: &GOVERNOR });
}

impl Conditions {
    /// Requests a CPU frequency governor, on the policies of the requested CPUs, or on all.
    pub fn governor(self, name: impl Into<String>) -> Self {
        self.with(Value::Governor(name.into()))
    }

    /// The governor of the policies of the thread's CPUs; several are separated by `/`.
    #[must_use]
    pub fn get_governor(&self) -> Option<&str> {
        if let Value::Governor(name) = self.value(Condition::GOVERNOR)? { Some(name) } else { None }
    }
}
