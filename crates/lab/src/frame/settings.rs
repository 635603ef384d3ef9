//! The conditions of a run: applied and put back, and the record's view of them: requested, applied, refused and not
//! restored, in words and as code.

use punctual::NotRestored;
use punctual::conditions::{Applied, CONDITIONS, Condition, Conditions, Guard, Refused};
use punctual_record::remedy::{self, param, phrase};
use punctual_record::{ConditionSet, Notice, Refusal, Setting};

use super::error::Error;
use super::ledger::{Ledger, Shared};
use super::plan::{Request, Variant};
use super::session::Session;

/// Applies the base conditions to the calling thread. The thread ends with the experiment, and takes with it whatever
/// cannot be restored.
pub(crate) fn apply(base: &Conditions, ledger: &Shared<Ledger>) -> Applied {
    let applied = base.clone().allow_irreversible().apply();
    let notes = applied.guard.notes().iter().map(|text| Notice::Other { text: text.clone() });
    notes.for_each(|note| ledger.open().notice(note));
    applied
}

/// Restores conditions. A failure becomes a notice.
pub(crate) fn put_back(guard: Guard, ledger: &Shared<Ledger>) {
    for left in guard.restore() {
        ledger.open().notice(not_restored(&left));
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
        let refused: Vec<Refused> = held.refused.iter().chain(base_refused).cloned().collect();
        let set = condition_set(&variant.over(&request.base), &held.applied, &refused);
        for refusal in &set.refused {
            let (conditions, refusal) = (variant.label.clone(), refusal.clone());
            match (request.require, held.left_out) {
                (true, _) => drop(unmet.get_or_insert(Error::Refused(refusal))),
                (_, true) => session.notice(Notice::ConditionsSkipped { conditions, refusal }),
                (_, false) => session.notice(Notice::ConditionRefused { conditions, refusal }),
            }
        }
        session.add_conditions(ConditionSet { label: variant.label.clone(), ..set });
    }
    let base_refused = base_refused.first().filter(|_| request.require).map(|refused| Error::Refused(refusal(refused)));
    let lost = ledger.not_kept.clone().map(Error::Lost);
    if lost.is_some() {
        session.incomplete();
    }
    unmet.or(base_refused).or(lost).map_or(Ok(()), Err)
}

/// A setting for each condition that was requested or could be read, in the order of the table.
fn settings(asked: &Conditions, held: &Conditions) -> Vec<Setting> {
    let setting = |condition: &Condition| {
        let (asked, held) = (asked.value(*condition), held.value(*condition));
        Some(Setting {
            condition: condition.name().to_owned(),
            asked: asked.map(param),
            applied: held.map(param),
            phrase: phrase(held.or(asked)?),
        })
    };
    CONDITIONS.iter().filter_map(setting).collect()
}

/// The set of these conditions: requested, as they hold, and refused.
#[must_use]
pub fn condition_set(asked: &Conditions, held: &Conditions, refused: &[Refused]) -> ConditionSet {
    let label = Variant::new(asked.clone()).label;
    ConditionSet { label, settings: settings(asked, held), refused: refused.iter().map(refusal).collect() }
}

/// The record's view of a refusal.
fn refusal(refused: &Refused) -> Refusal {
    Refusal {
        condition: refused.condition.to_string(),
        asked: refused.value(),
        why: refused.why.clone(),
        remedy: remedy::of_refused(refused),
    }
}

/// The record's view of a condition that could not be restored.
pub(crate) fn not_restored(left: &NotRestored) -> Notice {
    Notice::NotRestored {
        what: format!("{} (it was {})", left.what, left.was),
        why: left.why.clone(),
        remedy: remedy::of_need(&left.needs).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::{CpuSet, Policy};
    use punctual_record::Param;

    use super::*;

    #[test]
    fn each_condition_that_is_known_has_its_value_and_its_words() {
        let asked = Conditions::new().policy(Policy::Fifo(40)).timer_slack(Duration::from_nanos(1)).lock_memory();
        let held = asked.clone().cpus(&CpuSet::from_iter([3])).nice(5).without(Condition::TIMER_SLACK);
        let all = settings(&asked, &held);
        let shown: Vec<_> = all.iter().map(|setting| (setting.condition.as_str(), setting.phrase.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("policy", "SCHED_FIFO 40"),
                ("nice", "nice 5"),
                ("cpu", "CPU 3"),
                ("timer-slack", "slack 1 ns"),
                ("lock-memory", "memory locked")
            ]
        );
        let values = |name: &str| {
            all.iter()
                .find(|setting| setting.condition == name)
                .map(|found| (found.asked.clone(), found.applied.clone()))
        };
        assert_eq!(values("nice"), Some((None, Some(Param::Int(5)))));
        assert_eq!(values("cpu"), Some((None, Some(Param::Text("3".into())))));
        assert_eq!(values("timer-slack"), Some((Some(Param::Int(1)), None)), "asked, and not to be read");
        assert_eq!(values("lock-memory"), Some((Some(Param::Flag(true)), Some(Param::Flag(true)))));
    }
}
