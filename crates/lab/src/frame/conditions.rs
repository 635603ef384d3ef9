//! The conditions of a run in its record: requested, applied, refused, not restored.

use punctual::conditions::{Conditions, Guard, Refused};
use punctual_record::{ConditionSet, Notice};

use super::error::Error;
use super::ledger::{Ledger, Shared};
use super::plan::Request;
use super::session::Session;
use super::settings;

/// Applies the base conditions to the calling thread. The thread ends with the experiment, and takes with it whatever
/// cannot be restored.
pub(crate) fn apply(base: &Conditions, ledger: &Shared<Ledger>) -> Guard {
    let guard = base.clone().allow_irreversible().apply();
    let notes = guard.notes().iter().map(|text| Notice::Other { text: text.clone() });
    notes.for_each(|note| ledger.open().notice(note));
    guard
}

/// Restores conditions. A failure becomes a notice.
pub(crate) fn put_back(guard: Guard, ledger: &Shared<Ledger>) {
    for left in guard.restore() {
        ledger.open().notice(settings::not_restored(&left));
    }
}

/// Enters the conditions in the session. The error is the first required condition that did not hold. The
/// measurements are reported even then.
pub(crate) fn report(
    request: &Request,
    ledger: &Ledger,
    base_refused: &[Refused],
    session: &mut Session<'_>,
) -> Result<(), Error> {
    let mut unmet: Option<Error> = None;
    for (variant, held) in request.variants.iter().zip(&ledger.held) {
        let Some(held) = held else { continue };
        let refused: Vec<_> = held.refused.iter().chain(base_refused).map(settings::refusal).collect();
        for refusal in &refused {
            let (conditions, refusal) = (variant.label.clone(), refusal.clone());
            match (request.require, held.left_out) {
                (true, _) => drop(unmet.get_or_insert(Error::Refused(refusal))),
                (_, true) => session.notice(Notice::ConditionsSkipped { conditions, refusal }),
                (_, false) => session.notice(Notice::ConditionRefused { conditions, refusal }),
            }
        }
        let settings = settings::settings(&variant.over(&request.base), &held.applied);
        session.add_conditions(ConditionSet { label: variant.label.clone(), settings, refused });
    }
    let base_refused =
        base_refused.first().filter(|_| request.require).map(|its| Error::Refused(settings::refusal(its)));
    let lost = ledger.not_kept.clone().map(Error::Lost);
    if lost.is_some() {
        session.incomplete();
    }
    unmet.or(base_refused).or(lost).map_or(Ok(()), Err)
}
