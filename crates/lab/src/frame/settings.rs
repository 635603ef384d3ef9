//! The record's view of conditions: requested and applied, in words and as code.

use punctual::NotRestored;
use punctual::conditions::{CONDITIONS, Condition, Conditions, Refused, Value};
use punctual_record::{ConditionSet, Notice, Param, Refusal, Setting};

use super::plan::Variant;

/// A setting for each condition that was requested or could be read, in the order of the table.
pub(crate) fn settings(asked: &Conditions, held: &Conditions) -> Vec<Setting> {
    let setting = |condition: &Condition| {
        let (asked, held) = (asked.value(*condition), held.value(*condition));
        let shown = held.or(asked)?;
        Some(Setting {
            condition: condition.name().to_owned(),
            asked: asked.map(|value| param(*condition, value)),
            applied: held.map(|value| param(*condition, value)),
            phrase: condition.phrase(shown),
            code: condition.code(shown),
            price: condition.price(shown),
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

fn param(condition: Condition, value: &str) -> Param {
    match condition.exact(value) {
        Value::Text(text) => Param::Text(text),
        Value::Int(number) => Param::Int(number),
        Value::Flag(flag) => Param::Flag(flag),
    }
}

/// The record's view of a refusal.
pub(crate) fn refusal(refused: &Refused) -> Refusal {
    Refusal {
        condition: refused.condition.to_string(),
        asked: refused.asked.clone(),
        why: refused.why.clone(),
        remedy: refused.remedy.clone(),
    }
}

/// The record's view of a condition that could not be restored.
pub(crate) fn not_restored(left: &NotRestored) -> Notice {
    Notice::NotRestored {
        what: format!("{} (it was {})", left.what, left.was),
        why: left.why.clone(),
        remedy: left.remedy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::{CpuSet, Policy};

    use super::*;

    #[test]
    fn each_condition_that_is_known_has_its_value_and_its_words() {
        let asked = Conditions::new().policy(Policy::Fifo(40)).timer_slack(Duration::from_nanos(1)).lock_memory();
        let held = asked.clone().cpus(&CpuSet::of([3])).nice(5).without(Condition::TIMER_SLACK);
        let all = settings(&asked, &held);
        let shown: Vec<_> = all.iter().map(|its| (its.condition.as_str(), its.phrase.as_str())).collect();
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
        let of = |name: &str| {
            all.iter().find(|its| its.condition == name).map(|its| (its.asked.clone(), its.applied.clone()))
        };
        assert_eq!(of("nice"), Some((None, Some(Param::Int(5)))));
        assert_eq!(of("cpu"), Some((None, Some(Param::Text("3".into())))));
        assert_eq!(of("timer-slack"), Some((Some(Param::Int(1)), None)), "asked, and not to be read");
        assert_eq!(of("lock-memory"), Some((Some(Param::Flag(true)), Some(Param::Flag(true)))));
        assert!(all[0].code.is_some() && all[0].price.is_some());
    }

    #[test]
    fn frequencies_are_in_khz() {
        assert_eq!(param(Condition::MAX_FREQUENCY, "2.2GHz"), Param::Int(2_200_000));
        assert_eq!(param(Condition::MAX_FREQUENCY, "800MHz"), Param::Int(800_000));
        assert_eq!(param(Condition::MIN_FREQUENCY, "max"), Param::Text("max".into()));
    }
}
