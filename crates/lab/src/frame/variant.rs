//! Variants: the condition sets that one run compares.
//!
//! Conditions have two parts. The *base* is applied once and holds for the whole run. Each compared condition set is
//! a *variant*. Variants take turns as the subjects do: each is applied and restored in every round.

use punctual::conditions::{Condition, Conditions};

/// One of the condition sets compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Short name, for instance `SCHED_FIFO 40, slack 1 ns`.
    pub label: String,
    /// The conditions it adds to the base.
    pub conditions: Conditions,
}

/// Two variants were equal.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is asked for twice")]
pub struct BadVariant(pub String);

impl Variant {
    /// The thread as it was found.
    #[must_use]
    pub fn as_found() -> Self {
        Self::of(Conditions::new())
    }

    /// A variant labelled by its conditions.
    #[must_use]
    pub fn of(conditions: Conditions) -> Self {
        let label = if conditions.is_empty() { "as found".to_owned() } else { conditions.phrase() };
        Self { label, conditions }
    }

    /// All combinations of the values of these lists. A condition with an empty list is left as found.
    pub fn product(lists: &[(Condition, Vec<String>)]) -> Result<Vec<Self>, BadVariant> {
        let mut all = vec![Conditions::new()];
        for (condition, values) in lists.iter().filter(|(_, values)| !values.is_empty()) {
            let with = |former: &Conditions| -> Vec<Conditions> {
                values.iter().map(|value| former.clone().with(*condition, value.clone())).collect()
            };
            all = all.iter().flat_map(with).collect();
        }
        let variants: Vec<Self> = all.into_iter().map(Self::of).collect();
        for (index, variant) in variants.iter().enumerate() {
            if variants[..index].contains(variant) {
                return Err(BadVariant(variant.label.clone()));
            }
        }
        Ok(variants)
    }

    /// Base and variant together: the conditions requested for this variant.
    #[must_use]
    pub fn over(&self, base: &Conditions) -> Conditions {
        self.conditions.clone().over(base)
    }

    /// Whether a thread under this variant can monopolise a CPU.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.conditions.get_policy().is_some_and(|policy| policy.is_real_time())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_policy_meets_every_slack() {
        let typed = |condition, values: &[&str]| (condition, values.iter().map(|&value| value.into()).collect());
        let slacks = || typed(Condition::TIMER_SLACK, &["50us", "1ns"]);
        let variants = Variant::product(&[typed(Condition::POLICY, &["other", "fifo:40"]), slacks()]).unwrap();
        let labels: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "SCHED_OTHER, slack 50 us",
                "SCHED_OTHER, slack 1 ns",
                "SCHED_FIFO 40, slack 50 us",
                "SCHED_FIFO 40, slack 1 ns"
            ]
        );
        assert_eq!(Variant::product(&[]).unwrap(), [Variant::as_found()]);
        assert!(Variant::product(&[typed(Condition::POLICY, &["fifo:1", "fifo:1"])]).is_err());
    }

    #[test]
    fn a_variant_goes_before_the_base() {
        let base = Conditions::new().nice(5).timer_slack(Duration::from_nanos(7));
        let both = Variant::of(Conditions::new().nice(-1).lock_memory()).over(&base);
        assert_eq!((both.get_nice(), both.get_lock_memory()), (Some(-1), Some(true)));
        assert_eq!(both.get_timer_slack(), Some(Duration::from_nanos(7)));
    }
}
