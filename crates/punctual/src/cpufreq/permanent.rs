//! Settings that persist after the program has ended, and how to undo them.

use super::attribute::FORM;
use super::error::Error;
use super::guard::{GovernorGuard, check_governor, check_speed};
use super::system::Cpufreq;
use super::threads::{Raised, THREADS};
use crate::restore::journal::{Contents, Journal};
use crate::restore::{LockWait, NotRestored, Setting, files, put_back, replay};

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
