//! [`Frequency`]: what the frequency conditions share. One guard holds the settings, on the policies of the requested CPUs, or on
//! all.

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{Access, access};

use super::condition::{Applying, Definition, Held, Probe, Scope, Target};
use super::cpu;
use super::reason::Reason;
use super::surroundings::Surroundings;
use super::value::{Frequency as FrequencyLimit, Value};
use crate::cpu_set::CpuSet;
pub(super) use crate::cpufreq::FREQUENCY;
use crate::cpufreq::{Attribute, Error, GovernorGuard};
use crate::cpufreq::{format_frequency, parse_frequency};
use crate::need::Need;
use crate::restore::{LockWait, NotRestored};

/// Longest wait for another program that holds the settings; it may be about to end.
const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

/// A setting of CPU frequency, as a condition.
#[derive(Debug)]
pub(super) struct Frequency {
    pub(super) name: &'static str,
    pub(super) attribute: Attribute,
    /// [`Definition::parse`].
    pub(super) parse: fn(&str) -> Result<Value, String>,
}

impl Definition for Frequency {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
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
                [khz] => Some(FrequencyLimit::Khz(khz)),
                _ => Some(FrequencyLimit::Mixed(all)),
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
            access(&path, Access::WRITE_OK)
                .map_err(|errno| crate::restore::Error::io("writing to", path, errno.into()).into())
        };
        Probe::Found(found())
    }
}

/// Sets it with the guard of an earlier condition of the same set, if there is one.
pub(super) fn apply(
    attribute: Attribute,
    applying: &mut Applying<'_>,
    set: impl FnOnce(&mut GovernorGuard) -> Result<(), Error>,
) -> Result<(), Reason> {
    let (condition, value) = (applying.condition, applying.value);
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

/// A limit from its text form.
pub(super) fn limit(typed: &str) -> Result<FrequencyLimit, String> {
    parse_frequency(typed).map(FrequencyLimit::Khz).ok_or_else(|| format!("expected {FREQUENCY}"))
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

    fn renew(&mut self, _: &LazyCell<Surroundings>) -> Result<(), Reason> {
        let guard = self.guard.borrow();
        self.set.iter().try_for_each(|(policy, value)| guard.rewrite_on(*policy, self.attribute, value))?;
        Ok(())
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        Rc::into_inner(self.guard).map(|guard| guard.into_inner().restore()).unwrap_or_default()
    }
}
