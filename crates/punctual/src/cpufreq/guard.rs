//! The guard: the only way to change a frequency setting for a while.

use super::attribute::{Attribute, Setting};
use super::error::Error;
use super::files;
use super::journal::{Contents, Journal};
use super::keeper::Keeper;
use super::policy::Policy;
use super::put_back::{NotRestored, put_back};
use super::raise::{Raised, THREADS};
use super::state::Wait;
use super::system::Cpufreq;
use super::threads::GovernorThread;

/// Name of the journal of changes made for a while.
pub(super) const JOURNAL: &str = "journal";

/// The right to change the frequency settings of some policies, and the duty to put them back.
///
/// It exists before anything is changed. Each setter first notes in the journal what it finds, then writes, then reads back. Only
/// settings that were touched are put back: a limit that the firmware lowered meanwhile is nobody's to raise.
///
/// One guard exists at a time on a machine, across all programs of a user.
#[derive(Debug)]
#[must_use = "the settings end when the guard is dropped"]
pub struct GovernorGuard {
    cpufreq: Cpufreq,
    policies: Vec<usize>,
    found: Vec<Setting>,
    journal: Journal,
    /// It has the lock too: what is done last.
    keeper: Option<Keeper>,
    replayed: Vec<String>,
    raised: Raised,
}

impl GovernorGuard {
    pub(super) fn new(cpufreq: Cpufreq, cpus: &[usize], wait: Wait) -> Result<Self, Error> {
        let policies = cpufreq.policies_of(cpus)?.into_iter().map(|policy| policy.number).collect();
        let lock = cpufreq.state().lock(wait)?;
        let mut journal = Journal::open(cpufreq.state(), JOURNAL)?;
        let (left, mut replayed) = replay(&cpufreq, &mut journal, JOURNAL)?;
        let left: Vec<Setting> = left.into_iter().map(|not| not.setting).collect();
        journal.begin(&left)?;
        let (raised, told) = Raised::open(&cpufreq, cpufreq.state())?;
        replayed.extend(told);
        let threads = cpufreq.state().path().join(THREADS);
        let keeper = Keeper::start(&cpufreq.policies_folder(), journal.path(), &threads, lock)?;
        Ok(Self { cpufreq, policies, found: left, journal, keeper: Some(keeper), replayed, raised })
    }

    /// What was put back, or could not be followed, of a journal that an earlier program left behind; one sentence each.
    #[must_use]
    pub fn replayed(&self) -> &[String] {
        &self.replayed
    }

    /// The numbers of the policies that it may change.
    #[must_use]
    pub fn policies(&self) -> &[usize] {
        &self.policies
    }

    /// Process number of the keeper, for those who look at a process list.
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

    /// Sets the frequency that `userspace` keeps, in kHz, on every policy.
    pub fn set_speed_khz(&mut self, khz: u64) -> Result<(), Error> {
        for policy in self.read_policies()? {
            if policy.governor.as_deref() != Some("userspace") {
                let governor = policy.governor.unwrap_or_else(|| "unknown".into());
                return Err(Error::NotUserspace { policy: policy.number, governor });
            }
            check_frequency(&policy, khz)?;
        }
        self.set_all(Attribute::SetSpeed, &khz.to_string())
    }

    /// Sets the lowest frequency allowed, in kHz, on every policy.
    pub fn set_min_khz(&mut self, khz: u64) -> Result<(), Error> {
        self.read_policies()?.iter().try_for_each(|policy| check_frequency(policy, khz))?;
        self.set_all(Attribute::MinFrequency, &khz.to_string())
    }

    /// Sets the highest frequency allowed, in kHz, on every policy.
    pub fn set_max_khz(&mut self, khz: u64) -> Result<(), Error> {
        self.read_policies()?.iter().try_for_each(|policy| check_frequency(policy, khz))?;
        self.set_all(Attribute::MaxFrequency, &khz.to_string())
    }

    /// Sets the lowest frequency allowed to the highest that each policy's limits allow.
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

    /// Raises the kernel threads that the governors of these policies work in to SCHED_FIFO with this priority, so that a
    /// real-time thread of a lower one does not starve them. Tells which; those that have a real-time policy already are left
    /// alone. They go back under SCHED_OTHER when the guard ends.
    pub fn raise_governor_threads(&mut self, priority: u8) -> Result<Vec<GovernorThread>, Error> {
        let cpus: Vec<usize> = self.read_policies()?.iter().flat_map(|policy| policy.cpus.clone()).collect();
        self.raised.raise(&self.cpufreq, &cpus, &self.policies, priority)
    }

    /// Writes the governor of every policy without a look at anything, for those who measure the write: it must have been set once by
    /// [`GovernorGuard::set_governor`], which notes what was there before.
    pub fn rewrite_governor(&self, name: &str) -> Result<(), Error> {
        self.rewrite(Attribute::Governor, name)
    }

    /// Writes the governor that was found, with the settings that belong to it, before the guard ends: for those who measure with it and
    /// without it in turns. Where no governor was set it does nothing.
    pub fn rewrite_found_governor(&self) -> Result<(), Error> {
        self.write_back(Attribute::Governor)
    }

    /// Writes an attribute again without a look at anything, on the policies where it was set before, so that what was found is noted.
    pub(super) fn rewrite(&self, attribute: Attribute, value: &str) -> Result<(), Error> {
        if !attribute.accepts(value) {
            return Err(Error::BadValue { file: attribute.file(), value: value.into() });
        }
        let mut noted = self.found.iter().filter(|setting| setting.attribute == attribute);
        noted.try_for_each(|setting| files::write(&self.cpufreq.file(setting.policy, attribute), value))
    }

    /// Writes what was found of an attribute and of what changes with it, before its time and without a look: it may be changed again, and
    /// [`GovernorGuard::restore`] verifies.
    pub(super) fn write_back(&self, attribute: Attribute) -> Result<(), Error> {
        let along = attribute.takes_along();
        let mut found = self.found.iter().filter(|setting| along.contains(&setting.attribute));
        found.try_for_each(|s| files::write(&self.cpufreq.file(s.policy, s.attribute), &s.value))
    }

    /// Whether every policy where this attribute was set shows the value.
    pub(super) fn shows(&self, attribute: Attribute, value: &str) -> bool {
        let mut noted = self.found.iter().filter(|setting| setting.attribute == attribute);
        noted.all(|s| files::read(&self.cpufreq.file(s.policy, attribute)).as_deref() == Some(value))
    }

    /// A policy whose governor was set by this guard and is not `name` now, and what it is instead. Where no file tells it, because the
    /// policy's CPUs are offline, it is `offline`.
    #[must_use]
    pub fn other_governor(&self, name: &str) -> Option<(usize, String)> {
        let mut noted = self.found.iter().filter(|setting| setting.attribute == Attribute::Governor);
        noted.find_map(|setting| {
            let now = files::read(&self.cpufreq.file(setting.policy, Attribute::Governor));
            let now = now.unwrap_or_else(|| "offline".into());
            (now != name).then_some((setting.policy, now))
        })
    }

    /// Puts everything back, verifies it, and tells what could not be put back. Nothing in the list: all is as it was found.
    pub fn restore(mut self) -> Vec<NotRestored> {
        self.undo()
    }

    /// What was found before each change, as far as anything was changed.
    #[must_use]
    pub fn found(&self) -> &[Setting] {
        &self.found
    }

    /// Lets what was set stay. Whoever calls this has noted elsewhere what was found.
    pub(super) fn keep(mut self) {
        self.found.clear();
        drop(self.undo());
    }

    fn read_policies(&self) -> Result<Vec<Policy>, Error> {
        let mut policies = self.cpufreq.policies()?;
        policies.retain(|policy| self.policies.contains(&policy.number));
        Ok(policies)
    }

    fn set_all(&mut self, attribute: Attribute, value: &str) -> Result<(), Error> {
        self.policies.clone().into_iter().try_for_each(|policy| self.set_one(policy, attribute, value))
    }

    /// Notes what is there, writes, and reads back.
    pub(super) fn set_one(&mut self, policy: usize, attribute: Attribute, value: &str) -> Result<(), Error> {
        if !attribute.accepts(value) {
            return Err(Error::BadValue { file: attribute.file(), value: value.into() });
        }
        for &touched in attribute.takes_along() {
            self.note(policy, touched)?;
        }
        let path = self.cpufreq.file(policy, attribute);
        files::write(&path, value)?;
        let found = files::read_back(attribute, &path, value)?;
        if found == value {
            return Ok(());
        }
        Err(Error::NotKept { policy, file: attribute.file(), set: value.into(), found })
    }

    fn note(&mut self, policy: usize, attribute: Attribute) -> Result<(), Error> {
        if self.found.iter().any(|s| s.policy == policy && s.attribute == attribute) {
            return Ok(());
        }
        // A speed that came with a governor set by this guard was not found, and cannot be written once that governor is gone.
        let found = |s: &&Setting| s.policy == policy && s.attribute == Attribute::Governor;
        let governor = self.found.iter().find(found);
        if attribute == Attribute::SetSpeed && governor.is_some_and(|governor| governor.value != "userspace") {
            return Ok(());
        }
        // What has no value (a speed under another governor than userspace) has nothing to go back to.
        let Some(value) = files::read(&self.cpufreq.file(policy, attribute)) else { return Ok(()) };
        if !attribute.accepts(&value) {
            return Err(Error::BadValue { file: attribute.file(), value });
        }
        let setting = Setting { policy, attribute, value };
        self.journal.note(&setting)?;
        self.found.push(setting);
        Ok(())
    }

    fn undo(&mut self) -> Vec<NotRestored> {
        let Some(keeper) = self.keeper.take() else { return Vec::new() };
        let left = put_back(&self.cpufreq, &self.found);
        self.raised.put_back(&self.cpufreq);
        // What is left stays in the journal, for the next program or `punctual governor restore`.
        let still: Vec<Setting> = left.iter().map(|not| not.setting.clone()).collect();
        let settled = if still.is_empty() { self.journal.clear() } else { self.journal.begin(&still) };
        // A journal that could not be emptied names values that hold already: following it again changes nothing.
        drop(settled);
        keeper.dismiss();
        left
    }
}

impl Drop for GovernorGuard {
    fn drop(&mut self) {
        // Nobody is there to hear what failed: who wants to know calls `restore`.
        drop(self.undo());
    }
}

/// Whether this policy offers the governor.
pub(super) fn check_governor(policy: &Policy, name: &str) -> Result<(), Error> {
    if policy.governors.iter().any(|offered| offered == name) {
        return Ok(());
    }
    Err(Error::UnknownGovernor { policy: policy.number, asked: name.into(), offered: policy.governors.clone() })
}

fn check_frequency(policy: &Policy, khz: u64) -> Result<(), Error> {
    match (policy.hardware_min_khz, policy.hardware_max_khz) {
        (Some(min_khz), Some(max_khz)) if !(min_khz..=max_khz).contains(&khz) => {
            Err(Error::OutOfRange { policy: policy.number, asked_khz: khz, min_khz, max_khz })
        }
        _ => Ok(()),
    }
}

fn no_attribute(policy: &Policy, attribute: Attribute) -> Error {
    let driver = policy.driver.clone().unwrap_or_else(|| "no driver".into());
    Error::NoAttribute { policy: policy.number, driver, file: attribute.file() }
}

/// Follows what an earlier program left in a journal: what could not be put back, and what is worth saying.
pub(super) fn replay(
    cpufreq: &Cpufreq,
    journal: &mut Journal,
    name: &str,
) -> Result<(Vec<NotRestored>, Vec<String>), Error> {
    let mut told = Vec::new();
    let left = match journal.read()? {
        Contents::Empty | Contents::Stale => Vec::new(),
        Contents::Settings(settings) => {
            let left = put_back(cpufreq, &settings);
            let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
            told.extend(done.map(|s| format!("{s}: put back for a program that ended without doing so")));
            told.extend(left.iter().map(ToString::to_string));
            left
        }
        Contents::Refused(why) => {
            let at = journal.path().to_owned();
            let aside = journal.put_aside(cpufreq.state(), name)?;
            told.push(format!(
                "the journal {} was not followed: {why}; it is kept as {}",
                at.display(),
                aside.display()
            ));
            Vec::new()
        }
    };
    Ok((left, told))
}
