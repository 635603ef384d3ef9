//! Settings that are meant to stay after the program has ended, and the way back from them.

use super::attribute::{Attribute, Setting};
use super::error::Error;
use super::files;
use super::guard::{JOURNAL, check_governor, replay};
use super::journal::{Contents, Journal};
use super::put_back::NotRestored;
use super::raise::{Raised, THREADS};
use super::state::Wait;
use super::system::Cpufreq;

/// Name of the file that keeps what was found before the first setting that stays.
const BEFORE: &str = "before-set";

/// What [`Cpufreq::restore`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// What was done or not followed, one sentence each; empty: there was nothing to put back.
    pub told: Vec<String>,
    /// What could not be put back.
    pub left: Vec<NotRestored>,
}

impl Cpufreq {
    /// Sets the governor of the policies of these CPUs (all when none is named) for good. What was there before the first such
    /// setting is kept, and [`Cpufreq::restore`] puts it back. When one policy refuses, those set before it are put back at once.
    ///
    /// Gives the numbers of the policies that were set.
    pub fn set_governor(&self, cpus: &[usize], name: &str, wait: Wait) -> Result<Vec<usize>, Error> {
        let policies = self.policies_of(cpus)?;
        policies.iter().try_for_each(|policy| check_governor(policy, name))?;
        // The guard does the changing, so that a failure or a death halfway leaves nothing behind.
        let mut guard = self.guard(cpus, wait)?;
        guard.set_governor(name)?;
        let mut before = Journal::open(self.state(), BEFORE)?;
        let mut kept = match before.read()? {
            Contents::Settings(settings) => settings,
            Contents::Empty | Contents::Stale => Vec::new(),
            Contents::Refused(_) => {
                before.put_aside(self.state(), BEFORE)?;
                Vec::new()
            }
        };
        let known: Vec<(usize, Attribute)> = kept.iter().map(|s: &Setting| (s.policy, s.attribute)).collect();
        let new = guard.found().iter().filter(|s| !known.contains(&(s.policy, s.attribute))).cloned();
        kept.extend(new);
        before.begin(&kept)?;
        guard.keep();
        Ok(policies.into_iter().map(|policy| policy.number).collect())
    }

    /// Puts back what a program left changed that could not do so itself, and what was there before [`Cpufreq::set_governor`].
    pub fn restore(&self, wait: Wait) -> Result<Restored, Error> {
        let _lock = self.state().lock(wait)?;
        let (_, told) = Raised::open(self, self.state())?;
        let mut restored = Restored { told, left: Vec::new() };
        for name in [JOURNAL, BEFORE] {
            let mut journal = Journal::open(self.state(), name)?;
            let (left, mut told) = match journal.read()? {
                Contents::Settings(settings) if name == BEFORE => {
                    let left = super::put_back::put_back(self, &settings);
                    let done = settings.iter().filter(|s| !left.iter().any(|not| not.setting == **s));
                    (left.clone(), done.map(|s| format!("{s}: put back")).collect())
                }
                _ => replay(self, &mut journal, name)?,
            };
            let still: Vec<Setting> = left.iter().map(|not| not.setting.clone()).collect();
            if still.is_empty() {
                journal.clear()?
            } else {
                journal.begin(&still)?
            }
            told.retain(|line| !left.iter().any(|not| not.to_string() == *line));
            restored.told.extend(told);
            restored.left.extend(left);
        }
        Ok(restored)
    }

    /// Whether something set for good could be put back.
    #[must_use]
    pub fn has_something_to_restore(&self) -> bool {
        [JOURNAL, BEFORE, THREADS].iter().any(|name| files::read(&self.state().path().join(name)).is_some())
    }
}
