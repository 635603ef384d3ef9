//! Common code of the frequency conditions: one guard for the settings, on the policies of the requested CPUs, or on
//! all.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{Access, access};

use super::condition::{Applying, Condition, Held, Machine, Probe, Value};
use super::cpu;
use super::reason::Reason;
use super::surroundings::Surroundings;
use crate::cpu_set::CpuSet;
use crate::cpufreq::{Attribute, Error, GovernorGuard};
pub(super) use crate::cpufreq::{FREQUENCY, format_frequency, parse_frequency};
use crate::restore::{LockWait, NotRestored};

/// Longest wait for another program that holds the settings; it may be about to end.
const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

pub(super) const IF_LOST: &str = "stop what sets governors and limits meanwhile (power-profiles-daemon, tuned, TLP, auto-cpufreq, \
                                  thermald), and keep the CPUs online";
pub(super) const PRICE: &str = "It needs write access to /sys/devices/system/cpu/cpufreq (root).";

/// One applied setting. Undoing the last one of a guard restores all of them, because they depend on each other.
#[derive(Debug)]
pub(super) struct FrequencySetting {
    guard: Rc<RefCell<GovernorGuard>>,
    attribute: Attribute,
    /// The policies, with the value set.
    set: Vec<(usize, String)>,
}

/// Applies a setting with the guard of an earlier condition of the same set, if there is one.
pub(super) fn apply(
    value: &str,
    attribute: Attribute,
    applying: &mut Applying<'_>,
    set: impl FnOnce(&mut GovernorGuard) -> Result<(), Error>,
) -> Result<(), Reason> {
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
    let outcome = set(&mut guard.borrow_mut());
    // If one policy refuses, others may be set already.
    let set = guard.borrow().shown(attribute);
    applying.hold(value, FrequencySetting { guard, attribute, set });
    Ok(outcome?)
}

/// The values of the policies of the calling thread's CPUs.
pub(super) fn read(attribute: Attribute, machine: &Machine) -> Option<String> {
    let cpus = cpu::current().ok()?;
    let shown = machine.cpufreq().shown(attribute, &cpus);
    let different: BTreeSet<String> = shown.into_iter().collect();
    (!different.is_empty()).then(|| different.into_iter().collect::<Vec<_>>().join("/"))
}

/// Whether the file exists and this user may write to it.
pub(super) fn probe(attribute: Attribute, machine: &Machine) -> Probe {
    let found = || {
        let cpufreq = machine.cpufreq();
        let policies = cpufreq.policies()?;
        let first = policies.first().map_or(0, |policy| policy.number);
        let path = cpufreq.file(first, attribute);
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

/// A value for the record: in kHz.
pub(super) fn exact(value: &str) -> Value {
    match parse_frequency(value) {
        Some(khz) => Value::Int(i64::try_from(khz).unwrap_or(i64::MAX)),
        None => Value::Text(value.to_owned()),
    }
}

/// The value of a frequency file, with its unit.
pub(super) fn read_frequency(attribute: Attribute, machine: &Machine) -> Option<String> {
    let shown = read(attribute, machine)?;
    Some(shown.split('/').filter_map(|khz| khz.parse().ok()).map(format_frequency).collect::<Vec<_>>().join("/"))
}
