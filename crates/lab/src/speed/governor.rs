//! Governors that an experiment sets: notices of a refusal or of a change by another program, and restoring.

use std::time::Duration;

use punctual::conditions::Condition;
use punctual::cpufreq::{Error, GovernorGuard};
use punctual::restore::LockWait;
use punctual_record::{Notice, Refusal};

use crate::frame::breaks::NotKept;
use crate::frame::{Ledger, Shared, settings};

/// Longest wait for another program that holds the settings and may be about to end.
pub(crate) const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

/// Restores frequency settings. A failure becomes a notice.
pub(crate) fn give_back(guard: Option<GovernorGuard>, ledger: &Shared<Ledger>) {
    for left in guard.map(GovernorGuard::restore).unwrap_or_default() {
        ledger.open().notice(settings::not_restored(&left));
    }
}

/// A governor changed by another program.
pub(crate) fn governor_lost(conditions: &str, set: &str, policy: usize, found: &str) -> NotKept {
    NotKept {
        conditions: conditions.into(),
        condition: Condition::GOVERNOR.name().into(),
        set: set.into(),
        found: format!("{found} (policy{policy})"),
        remedy: "stop what sets governors meanwhile (power-profiles-daemon, tuned, TLP, auto-cpufreq), and keep the CPUs online".into(),
    }
}

/// The notice of a governor that could not be set.
pub(crate) fn refused(conditions: &str, governor: &str, error: &Error) -> Notice {
    Notice::ConditionRefused { conditions: conditions.into(), refusal: refusal(governor, error) }
}

/// The notice of a requested governor that could not be set.
pub(crate) fn skipped(governor: &str, error: &Error) -> Notice {
    Notice::ConditionsSkipped { conditions: format!("governor {governor}"), refusal: refusal(governor, error) }
}

fn refusal(governor: &str, error: &Error) -> Refusal {
    Refusal {
        condition: Condition::GOVERNOR.name().into(),
        asked: governor.into(),
        why: error.to_string(),
        remedy: error.remedy(),
    }
}
