//! Variants: the sets of conditions that one run puts side by side.
//!
//! Conditions come in two parts. The *base* is applied once and holds for the whole run. What is put side by side makes a *variant*
//! each; variants take turns like the subjects do, so each is applied and put back in every round.

use std::time::Duration;

use punctual::conditions::{Conditions, Policy};
use punctual::format_duration;

/// One of the condition sets put side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Short name, for instance `fifo:40, slack 1ns`.
    pub label: String,
    /// What it adds to the base.
    pub conditions: Conditions,
}

/// Two variants were the same.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is asked for twice")]
pub struct BadVariant(pub String);

impl Variant {
    /// The thread as it was found.
    #[must_use]
    pub fn as_found() -> Self {
        Self::of(Conditions::default())
    }

    /// A variant with a label made from what it asks for.
    #[must_use]
    pub fn of(conditions: Conditions) -> Self {
        let mut words = Vec::new();
        words.extend(conditions.policy.map(|p| p.to_string()));
        words.extend(conditions.nice.map(|n| format!("nice {n}")));
        words.extend(conditions.cpus.as_ref().map(|c| format!("cpu {c}")));
        words.extend(conditions.lock_memory.then(|| "memory locked".to_owned()));
        words.extend(conditions.timer_slack.map(|s| format!("slack {}", format_duration(s))));
        words.extend(conditions.dma_latency.map(|l| format!("dma latency {}us", l.as_micros())));
        let label = if words.is_empty() { "as found".to_owned() } else { words.join(", ") };
        Self { label, conditions }
    }

    /// Every policy with every slack; an empty list stands for 'as found'.
    pub fn product(policies: &[Policy], slacks: &[Duration]) -> Result<Vec<Self>, BadVariant> {
        fn or_as_found<T: Copy>(list: &[T]) -> Vec<Option<T>> {
            if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
        }
        let mut variants: Vec<Self> = Vec::new();
        for policy in or_as_found(policies) {
            for timer_slack in or_as_found(slacks) {
                let variant = Self::of(Conditions { policy, timer_slack, ..Conditions::default() });
                if variants.iter().any(|v| v.label == variant.label) {
                    return Err(BadVariant(variant.label));
                }
                variants.push(variant);
            }
        }
        Ok(variants)
    }

    /// Base and variant together: what is asked for while this variant is measured.
    #[must_use]
    pub fn over(&self, base: &Conditions) -> Conditions {
        let mine = self.conditions.clone();
        Conditions {
            policy: mine.policy.or(base.policy),
            nice: mine.nice.or(base.nice),
            cpus: mine.cpus.or_else(|| base.cpus.clone()),
            lock_memory: mine.lock_memory || base.lock_memory,
            timer_slack: mine.timer_slack.or(base.timer_slack),
            dma_latency: mine.dma_latency.or(base.dma_latency),
            one_way: mine.one_way || base.one_way,
        }
    }

    /// Whether a thread under this variant can keep a CPU from others.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.conditions.policy.as_ref().is_some_and(Policy::is_real_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_meets_every_slack() {
        let slacks = [Duration::from_micros(50), Duration::from_nanos(1)];
        let variants = Variant::product(&[Policy::Other, Policy::Fifo(40)], &slacks).unwrap();
        let labels: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(labels, ["other, slack 50us", "other, slack 1ns", "fifo:40, slack 50us", "fifo:40, slack 1ns"]);
        assert_eq!(Variant::product(&[], &[]).unwrap(), [Variant::as_found()]);
        assert!(Variant::product(&[Policy::Fifo(1), Policy::Fifo(1)], &[]).is_err());
    }

    #[test]
    fn a_variant_goes_before_the_base() {
        let base = Conditions { nice: Some(5), timer_slack: Some(Duration::from_nanos(7)), ..Conditions::default() };
        let own = Conditions { nice: Some(-1), lock_memory: true, ..Conditions::default() };
        let both = Variant::of(own).over(&base);
        assert_eq!((both.nice, both.lock_memory), (Some(-1), true));
        assert_eq!(both.timer_slack, Some(Duration::from_nanos(7)));
    }
}
