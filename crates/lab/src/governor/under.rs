//! Measuring under a governor that was set for the purpose: any experiment, not only those about frequency.

use punctual::cpufreq::{Cpufreq, Error, GovernorGuard};
use punctual_record::{Notice, Refusal};

use super::frame::{PATIENCE, settings_left};
use crate::Session;

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

/// The governor in force while this lives.
#[derive(Debug)]
#[must_use = "the governor is put back when this is dropped"]
pub struct Under(Option<GovernorGuard>);

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
                session.under_governor(&asked.governor, Some(&asked.governor));
                Ok(Self(Some(guard)))
            }
            Err(error) if asked.require => Err(error.into()),
            Err(error) => {
                session.under_governor(&asked.governor, None);
                session.notice(refused("as found", &asked.governor, &error));
                Ok(Self(None))
            }
        }
    }

    /// Puts it back and says what could not be put back.
    pub fn put_back(self, session: &mut Session<'_>) {
        for left in self.0.map(GovernorGuard::restore).unwrap_or_default() {
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
