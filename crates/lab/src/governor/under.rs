//! Measuring under a governor that was set for the purpose: any experiment, not only those about frequency.

use std::sync::Arc;

use punctual::cpufreq::{Cpufreq, Error, GovernorGuard};
use punctual_record::{Notice, Refusal};

use super::frame::{PATIENCE, settings_left};
use crate::Session;
use crate::left_out::NotKept;

/// What was asked of the governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The governor.
    pub governor: String,
    /// On the policies of these CPUs; none: on all.
    pub cpus: Vec<usize>,
    /// A refusal is an error.
    pub require: bool,
}

/// A governor that was set, and the right to set it again.
#[derive(Debug)]
pub struct SetGovernor {
    pub(crate) name: String,
    guard: GovernorGuard,
}

impl SetGovernor {
    /// Whether a policy has another governor now, set by another program while `conditions` were measured.
    pub(crate) fn lost(&self, conditions: &str) -> Option<NotKept> {
        let (policy, found) = self.guard.other_governor(&self.name)?;
        Some(governor_lost(conditions, &self.name, policy, &found))
    }

    /// Sets it again; whether it holds, the next look tells.
    pub(crate) fn renew(&self) {
        let _ = self.guard.rewrite_governor(&self.name);
    }
}

/// A governor that another program changed.
pub(super) fn governor_lost(conditions: &str, set: &str, policy: usize, found: &str) -> NotKept {
    NotKept {
        conditions: conditions.into(),
        condition: "governor".into(),
        set: set.into(),
        found: format!("{found} (policy{policy})"),
        remedy: "stop what sets governors meanwhile (power-profiles-daemon, tuned, TLP, auto-cpufreq), and keep the CPUs online".into(),
    }
}

/// The governor in force while this lives.
#[derive(Debug)]
#[must_use = "the governor is put back when this is dropped"]
pub struct Under(Option<Arc<SetGovernor>>);

impl Under {
    /// Sets the governor. A refusal becomes a notice with its remedy, unless it is to be an error.
    pub fn set(asked: &Asked, session: &mut Session<'_>) -> Result<Self, super::Error> {
        let set = || -> Result<GovernorGuard, Error> {
            let mut guard = Cpufreq::system().guard(&asked.cpus, PATIENCE)?;
            guard.set_governor(&asked.governor)?;
            Ok(guard)
        };
        match set() {
            Ok(guard) => {
                for told in guard.replayed() {
                    session.notice(Notice::Other { text: told.clone() });
                }
                let set = Arc::new(SetGovernor { name: asked.governor.clone(), guard });
                session.under_governor(&asked.governor, Some(Arc::clone(&set)));
                Ok(Self(Some(set)))
            }
            Err(error) if asked.require => Err(error.into()),
            Err(error) => {
                session.under_governor(&asked.governor, None);
                session.notice(refused("as found", &asked.governor, &error));
                Ok(Self(None))
            }
        }
    }

    /// Puts it back and says what could not be put back. A measuring thread that had to be left behind may still hold it: then it goes
    /// back when this process ends.
    pub fn put_back(self, session: &mut Session<'_>) {
        session.leave_governor();
        let guard = self.0.and_then(Arc::into_inner).map(|set| set.guard);
        for left in guard.map(GovernorGuard::restore).unwrap_or_default() {
            session.notice(settings_left(&left));
        }
    }
}

/// The notice of a governor that could not be set.
pub(super) fn refused(conditions: &str, governor: &str, error: &Error) -> Notice {
    Notice::ConditionRefused { conditions: conditions.into(), refusal: refusal(governor, error) }
}

/// The notice of a governor that was to be measured and could not be set.
pub(super) fn skipped(governor: &str, error: &Error) -> Notice {
    Notice::ConditionsSkipped { conditions: format!("governor {governor}"), refusal: refusal(governor, error) }
}

fn refusal(governor: &str, error: &Error) -> Refusal {
    Refusal { condition: "governor".into(), asked: governor.into(), why: error.to_string(), remedy: error.remedy() }
}
