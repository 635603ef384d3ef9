//! [`Frequency`]: what the frequency conditions share. One guard holds the settings, on the policies of the requested CPUs, or on
//! all.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{Access, access};

use super::condition::{Applying, Condition, Definition, Held, Machine, Probe, Scope, Takes};
use super::cpu;
use super::reason::Reason;
use super::surroundings::Surroundings;
use super::value::{Frequency as FrequencyLimit, Value};
use crate::cpu_set::CpuSet;
use crate::cpufreq::{Attribute, Error, GovernorGuard};
pub(super) use crate::cpufreq::{FREQUENCY, format_frequency, parse_frequency};
use crate::restore::{LockWait, NotRestored};

/// Longest wait for another program that holds the settings; it may be about to end.
const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

const IF_LOST: &str = "stop what sets governors and limits meanwhile (power-profiles-daemon, tuned, TLP, auto-cpufreq, \
                                  thermald), and keep the CPUs online";

/// The highest frequency within the limits.
pub(super) const MAX: &str = "max";

/// A setting of CPU frequency, as a condition.
#[derive(Debug)]
pub(super) struct Frequency {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) takes: Takes,
    pub(super) attribute: Attribute,
    /// [`Definition::parse`].
    pub(super) parse: fn(&str) -> Result<String, String>,
    /// Sets a value that `parse` accepts.
    pub(super) set: fn(&mut GovernorGuard, &str) -> Result<(), Error>,
}

impl Frequency {
    /// Whether the value is a number of kHz in its file.
    fn is_limit(&self) -> bool {
        matches!(self.attribute, Attribute::MinFrequency | Attribute::MaxFrequency)
    }
}

impl Definition for Frequency {
    fn name(&self) -> &'static str {
        self.name
    }

    fn help(&self) -> &'static str {
        self.help
    }

    fn takes(&self) -> Takes {
        self.takes
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        (self.parse)(typed)
    }

    /// The values of the policies of the calling thread's CPUs, frequencies with their unit.
    fn read(&self, machine: &Machine) -> Option<String> {
        let cpus = cpu::current().ok()?;
        let shown = machine.cpufreq().shown(self.attribute, &cpus);
        let different: BTreeSet<String> = shown.into_iter().collect();
        let with_unit = |khz: String| khz.parse().ok().map(format_frequency);
        let shown: Vec<String> = different
            .into_iter()
            .filter_map(|value| if self.is_limit() { with_unit(value) } else { Some(value) })
            .collect();
        (!shown.is_empty()).then(|| shown.join("/"))
    }

    /// Sets it with the guard of an earlier condition of the same set, if there is one.
    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let value = &(self.parse)(value)
            .map_err(|expected| Reason::new(format!("invalid {} '{value}'", self.name), expected))?;
        let earlier = applying.earlier::<FrequencySetting>().map(|earlier| Rc::clone(&earlier.guard));
        let guard = match earlier {
            Some(guard) => guard,
            None => {
                let cpus: Option<CpuSet> = applying.asked(Condition::CPU).and_then(|cpus| cpus.parse().ok());
                let cpus = cpus.as_ref().map_or(&[][..], CpuSet::as_slice);
                let guard = applying.machine.cpufreq().guard(cpus, PATIENCE)?;
                applying.notes.extend_from_slice(guard.replayed());
                Rc::new(RefCell::new(guard))
            }
        };
        let outcome = (self.set)(&mut guard.borrow_mut(), value);
        // If one policy refuses, others may be set already.
        let set = guard.borrow().shown(self.attribute);
        applying.hold(value, FrequencySetting { guard, attribute: self.attribute, set });
        Ok(outcome?)
    }

    /// Whether the file exists and this user may write to it.
    fn probe(&self, machine: &Machine) -> Probe {
        let found = || {
            let cpufreq = machine.cpufreq();
            let policies = cpufreq.policies()?;
            let first = policies.first().map_or(0, |policy| policy.number);
            let path = cpufreq.file(first, self.attribute);
            if !path.exists() {
                return Err(Reason::new(
                    format!("there is no {}", path.display()),
                    "use what this driver has: `punctual governor` shows it",
                ));
            }
            access(&path, Access::WRITE_OK)
                .map_err(|errno| crate::restore::Error::io("writing to", path, errno.into()).into())
        };
        Probe::Found(found())
    }

    fn typed(&self, value: &str) -> Option<Value> {
        Some(match self.attribute {
            Attribute::MinFrequency => Value::MinFrequency(limit(value)?),
            Attribute::MaxFrequency => Value::MaxFrequency(limit(value)?),
            Attribute::Preference => Value::Epp(value.to_owned()),
            _ => Value::Governor(value.to_owned()),
        })
    }

    fn if_lost(&self) -> &'static str {
        IF_LOST
    }
}

/// A frequency as it is typed or read.
fn limit(value: &str) -> Option<FrequencyLimit> {
    match parse_frequency(value) {
        Some(khz) => Some(FrequencyLimit::Khz(khz)),
        None if value == MAX => Some(FrequencyLimit::Highest),
        None => value.split('/').map(parse_frequency).collect::<Option<Vec<u64>>>().map(FrequencyLimit::Mixed),
    }
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
            let now = now.iter().find(|(its, _)| its == policy).map_or("offline", |(_, now)| now);
            let shown = || match (self.attribute, now.parse()) {
                (Attribute::MinFrequency | Attribute::MaxFrequency, Ok(khz)) => format_frequency(khz),
                _ => now.to_owned(),
            };
            (now != value).then(|| format!("{} (policy{policy})", shown()))
        })
    }

    fn renew(&mut self, _: &Surroundings) -> Result<(), Reason> {
        let guard = self.guard.borrow();
        self.set.iter().try_for_each(|(policy, value)| guard.rewrite_on(*policy, self.attribute, value))?;
        Ok(())
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        Rc::into_inner(self.guard).map(|guard| guard.into_inner().restore()).unwrap_or_default()
    }
}
