//! The guard: the only way to change a frequency setting temporarily.

use crate::cpufreq::system::{Cpufreq, CpufreqPolicy};
use crate::cpufreq::threads::{GovernorThread, Raised, THREADS};
use crate::cpufreq::{Attribute, Error, FORM};
use crate::restore;
use crate::restore::journal::{Contents, Journal};
use crate::restore::keeper::Keeper;
use crate::restore::{LockWait, NotRestored, Setting, files, put_back, replay};

impl Cpufreq {
    /// A guard over the policies of these CPUs (all if none is named). Changes nothing yet.
    ///
    /// Restores the leftovers of an earlier program first.
    pub fn guard(&self, cpus: &[usize], wait: LockWait) -> Result<GovernorGuard, Error> {
        let policies = self.policies_of(cpus)?.into_iter().map(|policy| policy.number).collect();
        let lock = self.state().lock(&FORM, wait)?;
        let mut journal = Journal::open(self.state(), FORM.journal, &FORM)?;
        let (left, mut replayed) = replay(self.root(), &mut journal)?;
        let found: Vec<Setting> = left.into_iter().map(|left| left.setting).collect();
        journal.begin(&found)?;
        let (raised, told) = Raised::open(self, self.state())?;
        replayed.extend(told);
        let threads = self.state().path().join(THREADS);
        let keeper = Some(Keeper::start(&FORM, self.root(), &journal.path(), Some(&threads), lock)?);
        Ok(GovernorGuard { cpufreq: self.clone(), policies, found, journal, keeper, replayed, raised })
    }
}

/// Changes the frequency settings of some policies, and restores them.
///
/// It exists before any change. Each setter records the current value in the journal, writes, then reads back. Only
/// changed settings are restored: a limit that the firmware lowered meanwhile stays.
///
/// A machine has one guard at a time, across all programs of a user.
#[derive(Debug)]
#[must_use = "the settings end when the guard is dropped"]
pub struct GovernorGuard {
    cpufreq: Cpufreq,
    policies: Vec<usize>,
    found: Vec<Setting>,
    journal: Journal,
    /// Also holds the lock, so it is dropped last.
    keeper: Option<Keeper>,
    replayed: Vec<String>,
    raised: Raised,
}

impl GovernorGuard {
    /// Settings restored from an earlier program's journal, or refused; one sentence each.
    #[must_use]
    pub fn replayed(&self) -> &[String] {
        &self.replayed
    }

    /// The numbers of the guarded policies.
    #[must_use]
    pub fn policies(&self) -> &[usize] {
        &self.policies
    }

    /// The keeper's process ID.
    #[must_use]
    pub fn keeper(&self) -> Option<u32> {
        self.keeper.as_ref().map(Keeper::pid)
    }

    /// Sets the governor of every policy.
    pub fn set_governor(&mut self, name: &str) -> Result<(), Error> {
        for policy in self.read_policies()? {
            check_governor(&policy, name)?;
        }
        self.set_all(Attribute::Governor, name)
    }

    /// Sets the frequency under `userspace`, in kHz, on every policy.
    pub fn set_speed_khz(&mut self, khz: u64) -> Result<(), Error> {
        for policy in self.read_policies()? {
            if policy.governor.as_deref() != Some("userspace") {
                let governor = policy.governor.unwrap_or_else(|| "unknown".into());
                return Err(Error::NotUserspace { policy: policy.number, governor });
            }
            check_speed(&policy, khz)?;
        }
        self.set_all(Attribute::SetSpeed, &khz.to_string())
    }

    /// Sets the lowest frequency allowed, in kHz, on every policy.
    pub fn set_min_khz(&mut self, khz: u64) -> Result<(), Error> {
        self.read_policies()?.iter().try_for_each(|policy| check_limit(policy, Attribute::MinFrequency, khz))?;
        self.set_all(Attribute::MinFrequency, &khz.to_string())
    }

    /// Sets the highest frequency allowed, in kHz, on every policy.
    pub fn set_max_khz(&mut self, khz: u64) -> Result<(), Error> {
        self.read_policies()?.iter().try_for_each(|policy| check_limit(policy, Attribute::MaxFrequency, khz))?;
        self.set_all(Attribute::MaxFrequency, &khz.to_string())
    }

    /// Sets the lowest allowed frequency to the highest within each policy's limits.
    pub fn set_min_to_max(&mut self) -> Result<(), Error> {
        for policy in self.read_policies()? {
            let Some(max) = policy.max_khz else { return Err(no_attribute(&policy, Attribute::MaxFrequency)) };
            self.set_one(policy.number, Attribute::MinFrequency, &max.to_string())?;
        }
        Ok(())
    }

    /// Sets the energy-performance preference of every policy: a word that it offers, or 0 to 255.
    pub fn set_preference(&mut self, preference: &str) -> Result<(), Error> {
        for policy in self.read_policies()? {
            if policy.preference.is_none() {
                return Err(no_attribute(&policy, Attribute::Preference));
            }
        }
        self.set_all(Attribute::Preference, preference)
    }

    /// Raises the governors' kernel threads of these policies to SCHED_FIFO with this priority. Then no real-time thread of lower priority
    /// starves them. Returns the raised threads. Threads with a real-time policy are left alone. The guard restores SCHED_OTHER at its end.
    pub fn raise_governor_threads(&mut self, priority: u8) -> Result<Vec<GovernorThread>, Error> {
        let cpus: Vec<usize> = self.read_policies()?.iter().flat_map(|policy| policy.cpus.clone()).collect();
        Ok(self.raised.raise(&self.cpufreq, &cpus, &self.policies, priority)?)
    }

    /// Writes the governor of every policy without any check, to measure the write alone. Requires an earlier
    /// [`GovernorGuard::set_governor`], which records the previous governor.
    pub fn rewrite_governor(&self, name: &str) -> Result<(), Error> {
        self.rewrite(Attribute::Governor, name)
    }

    /// Writes the original governor and its settings before the guard ends, to alternate measurements with and without
    /// the new one. Does nothing if no governor was set.
    pub fn rewrite_found_governor(&self) -> Result<(), Error> {
        self.write_back(Attribute::Governor)
    }

    /// Writes an attribute again without a check. It was set on these policies before, and the journal has the old value.
    pub(super) fn rewrite(&self, attribute: Attribute, value: &str) -> Result<(), Error> {
        checked(attribute, 0, value)?;
        Ok(self.noted(attribute).try_for_each(|setting| files::write(&setting.path(self.cpufreq.root()), value))?)
    }

    /// Writes the original value of an attribute and of its dependents early and without any check. It may change
    /// again, and [`GovernorGuard::restore`] verifies.
    pub(super) fn write_back(&self, attribute: Attribute) -> Result<(), Error> {
        let along = attribute.takes_along();
        let mut found =
            self.found.iter().filter(|setting| along.iter().any(|attribute| attribute.file() == setting.file()));
        Ok(found.try_for_each(|setting| files::write(&setting.path(self.cpufreq.root()), setting.value()))?)
    }

    /// Whether every policy with this attribute set shows the value.
    pub(super) fn shows(&self, attribute: Attribute, value: &str) -> bool {
        self.noted(attribute).all(|setting| files::read(&setting.path(self.cpufreq.root())).as_deref() == Some(value))
    }

    /// A policy whose governor this guard set and that is no longer `name`, with its current governor. It is `offline`
    /// if the policy's CPUs are offline and no file shows it.
    #[must_use]
    pub fn other_governor(&self, name: &str) -> Option<(usize, String)> {
        self.noted(Attribute::Governor).find_map(|setting| {
            let now = files::read(&setting.path(self.cpufreq.root()));
            let now = now.unwrap_or_else(|| "offline".into());
            (now != name).then_some((setting.number(), now))
        })
    }

    /// The value on every policy with this attribute set.
    pub(crate) fn shown(&self, attribute: Attribute) -> Vec<(usize, String)> {
        self.noted(attribute).filter_map(|s| Some((s.number(), files::read(&s.path(self.cpufreq.root()))?))).collect()
    }

    /// Writes an attribute of one policy again, which this guard has set before.
    pub(crate) fn rewrite_on(&self, policy: usize, attribute: Attribute, value: &str) -> Result<(), Error> {
        let setting = checked(attribute, policy, value)?;
        Ok(files::write(&setting.path(self.cpufreq.root()), value)?)
    }

    /// Restores and verifies everything, and returns the failures. An empty list means that everything is restored.
    pub fn restore(mut self) -> Vec<NotRestored> {
        self.undo()
    }

    /// The original values of the changed settings.
    #[must_use]
    pub fn found(&self) -> &[Setting] {
        &self.found
    }

    /// Leaves the new settings in force. The caller has stored the original values elsewhere.
    pub(super) fn keep(mut self) {
        self.found.clear();
        drop(self.undo());
    }

    /// The original values of an attribute.
    fn noted(&self, attribute: Attribute) -> impl Iterator<Item = &Setting> {
        self.found.iter().filter(move |setting| setting.file() == attribute.file())
    }

    fn read_policies(&self) -> Result<Vec<CpufreqPolicy>, Error> {
        let mut policies = self.cpufreq.policies()?;
        policies.retain(|policy| self.policies.contains(&policy.number));
        Ok(policies)
    }

    fn set_all(&mut self, attribute: Attribute, value: &str) -> Result<(), Error> {
        self.policies.clone().into_iter().try_for_each(|policy| self.set_one(policy, attribute, value))
    }

    /// Records the current value, writes, and reads back.
    pub(super) fn set_one(&mut self, policy: usize, attribute: Attribute, value: &str) -> Result<(), Error> {
        let wanted = checked(attribute, policy, value)?;
        for &touched in attribute.takes_along() {
            self.note(policy, touched)?;
        }
        let path = wanted.path(self.cpufreq.root());
        files::write(&path, value)?;
        let found = files::read_back(wanted.file_form, &path, value)?;
        if found == value {
            return Ok(());
        }
        Err(Error::NotKept { policy, file: attribute.file(), set: value.into(), found })
    }

    fn note(&mut self, policy: usize, attribute: Attribute) -> Result<(), Error> {
        if self.found.iter().any(|s| (s.number(), s.file()) == (policy, attribute.file())) {
            return Ok(());
        }
        // A speed that came with this guard's governor is not an original value, and cannot be written without that
        // governor.
        let found = |s: &&Setting| (s.number(), s.file()) == (policy, Attribute::Governor.file());
        let governor = self.found.iter().find(found);
        if attribute == Attribute::SetSpeed && governor.is_some_and(|governor| governor.value() != "userspace") {
            return Ok(());
        }
        // A setting without a value (a speed under another governor than userspace) needs no restore.
        let Some(value) = files::read(&self.cpufreq.file(policy, attribute)) else { return Ok(()) };
        let setting = checked(attribute, policy, &value)?;
        self.journal.note(&setting)?;
        self.found.push(setting);
        Ok(())
    }

    fn undo(&mut self) -> Vec<NotRestored> {
        let Some(keeper) = self.keeper.take() else { return Vec::new() };
        let left = put_back(self.cpufreq.root(), &self.found);
        self.raised.put_back(&self.cpufreq);
        // Failed settings stay in the journal, for the next program or `punctual governor restore`. A journal that
        // could not be emptied contains only restored values: following it again changes nothing.
        drop(self.journal.settle(&left));
        keeper.dismiss();
        left.into_iter().map(NotRestored::from).collect()
    }
}

impl Drop for GovernorGuard {
    fn drop(&mut self) {
        // Drop cannot report failures; `restore` does.
        drop(self.undo());
    }
}

/// Whether this policy offers the governor.
pub(super) fn check_governor(policy: &CpufreqPolicy, name: &str) -> Result<(), Error> {
    if policy.governors.iter().any(|offered| offered == name) {
        return Ok(());
    }
    Err(Error::UnknownGovernor { policy: policy.number, asked: name.into(), offered: policy.governors.clone() })
}

fn check_limit(policy: &CpufreqPolicy, limit: Attribute, khz: u64) -> Result<(), Error> {
    check_range(policy, limit, khz, (policy.hardware_min_khz, policy.hardware_max_khz))
}

fn check_range(
    policy: &CpufreqPolicy,
    attribute: Attribute,
    asked_khz: u64,
    range: (Option<u64>, Option<u64>),
) -> Result<(), Error> {
    match range {
        (Some(min_khz), Some(max_khz)) if !(min_khz..=max_khz).contains(&asked_khz) => {
            let (file, cpus) = (attribute.file(), policy.cpus.clone());
            Err(Error::OutOfRange { file, policy: policy.number, cpus, asked_khz, min_khz, max_khz })
        }
        _ => Ok(()),
    }
}

/// Whether a policy can run at this speed. The kernel moves any other speed to its limits or to its next step.
pub(super) fn check_speed(policy: &CpufreqPolicy, khz: u64) -> Result<(), Error> {
    check_range(policy, Attribute::SetSpeed, khz, (policy.min_khz, policy.max_khz))?;
    let steps = &policy.frequencies_khz;
    // Frequencies above the nominal one (boost) have a list of their own.
    if steps.contains(&khz) || steps.last().is_none_or(|last| khz > *last) {
        return Ok(());
    }
    Err(Error::NoSuchStep { policy: policy.number, asked_khz: khz, steps_khz: steps.clone() })
}

fn checked(attribute: Attribute, policy: usize, value: &str) -> Result<Setting, Error> {
    let bad = || restore::Error::BadValue { file: attribute.file(), value: value.into() };
    Ok(attribute.setting(policy, value).ok_or_else(bad)?)
}

fn no_attribute(policy: &CpufreqPolicy, attribute: Attribute) -> Error {
    let driver = policy.driver.clone().unwrap_or_else(|| "no driver".into());
    Error::NoAttribute { policy: policy.number, driver, file: attribute.file() }
}

// Settings that persist after the program has ended, and how to undo them.

/// Name of the file with the values before the first persistent setting.
const BEFORE: &str = "before-set";
/// The governor that keeps a set speed.
const USERSPACE: &str = "userspace";

/// Result of [`Cpufreq::restore`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Restored or refused settings, one sentence each; empty if there was nothing to restore.
    pub told: Vec<String>,
    /// Settings that could not be restored.
    pub left: Vec<NotRestored>,
}

impl Cpufreq {
    /// Sets the governor of the policies of these CPUs (all if none is named) permanently. The value before the first
    /// such call is kept for [`Cpufreq::restore`]. If one policy refuses, those set before it are restored at once.
    ///
    /// Returns the numbers of the changed policies.
    pub fn set_governor(&self, cpus: &[usize], name: &str, wait: LockWait) -> Result<Vec<usize>, Error> {
        let policies = self.policies_of(cpus)?;
        policies.iter().try_for_each(|policy| check_governor(policy, name))?;
        self.set_permanently(cpus, wait, |guard| guard.set_governor(name))
    }

    /// Sets the governor `userspace` and its frequency, in kHz, as [`Cpufreq::set_governor`] does. Refuses a frequency
    /// outside of a policy's limits, or between its steps.
    pub fn set_speed_khz(&self, cpus: &[usize], khz: u64, wait: LockWait) -> Result<Vec<usize>, Error> {
        let policies = self.policies_of(cpus)?;
        policies.iter().try_for_each(|policy| {
            check_governor(policy, USERSPACE)?;
            check_speed(policy, khz)
        })?;
        self.set_permanently(cpus, wait, |guard| {
            guard.set_governor(USERSPACE)?;
            guard.set_speed_khz(khz)
        })
    }

    /// Makes changes that stay, and keeps what they replace. Returns the numbers of the changed policies.
    fn set_permanently(
        &self,
        cpus: &[usize],
        wait: LockWait,
        change: impl FnOnce(&mut GovernorGuard) -> Result<(), Error>,
    ) -> Result<Vec<usize>, Error> {
        // The guard makes the changes, so a failure or a death halfway leaves nothing behind.
        let mut guard = self.guard(cpus, wait)?;
        change(&mut guard)?;
        let mut before = Journal::open(self.state(), BEFORE, &FORM)?;
        let mut kept = match before.read()? {
            Contents::Settings(settings) => settings,
            Contents::Empty | Contents::Stale => Vec::new(),
            Contents::Refused(_) => {
                before.put_aside()?;
                Vec::new()
            }
        };
        // The stored values of a policy are those before the first setting; a later one is not an original value.
        let known: Vec<usize> = kept.iter().map(Setting::number).collect();
        kept.extend(guard.found().iter().filter(|setting| !known.contains(&setting.number())).cloned());
        before.begin(&kept)?;
        let changed = guard.policies().to_vec();
        guard.keep();
        Ok(changed)
    }

    /// Restores the leftovers of a dead program, and the values before [`Cpufreq::set_governor`].
    pub fn restore(&self, wait: LockWait) -> Result<Restored, Error> {
        let _lock = self.state().lock(&FORM, wait)?;
        let (_, told) = Raised::open(self, self.state())?;
        let mut restored = Restored { told, left: Vec::new() };
        for name in [FORM.journal, BEFORE] {
            let mut journal = Journal::open(self.state(), name, &FORM)?;
            let (left, mut told) = match journal.read()? {
                Contents::Settings(settings) if name == BEFORE => {
                    let left = put_back(self.root(), &settings);
                    let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
                    (left.clone(), done.map(|s| format!("{s}: put back")).collect())
                }
                _ => replay(self.root(), &mut journal)?,
            };
            journal.settle(&left)?;
            let left: Vec<NotRestored> = left.into_iter().map(NotRestored::from).collect();
            told.retain(|line| !left.iter().any(|not| not.to_string() == *line));
            restored.told.extend(told);
            restored.left.extend(left);
        }
        Ok(restored)
    }

    /// Whether a permanent setting could be restored.
    #[must_use]
    pub fn has_something_to_restore(&self) -> bool {
        [FORM.journal, BEFORE, THREADS].iter().any(|name| files::read(&self.state().path().join(name)).is_some())
    }
}
