//! Variants: the sets of conditions that one run puts side by side.
//!
//! Conditions come in two parts. The *base* (CPUs, nice, locked memory, C-states) is applied once and holds for the whole run. What
//! may be given several values (policy, timer slack) makes a *variant*; the variants take turns like the
//! subjects do, so each is applied and put back in every round.

use std::time::Duration;

use punctual::conditions::{Conditions, Policy};
use punctual::format_duration;

/// One of the condition sets put side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Short name, for instance `fifo:40, slack 1ns`.
    pub label: String,
    /// Scheduling policy; none: as found.
    pub policy: Option<Policy>,
    /// Timer slack; none: as found.
    pub timer_slack: Option<Duration>,
}

/// Two variants were the same.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is asked for twice")]
pub struct BadVariant(pub String);

impl Variant {
    /// The thread as it was found.
    #[must_use]
    pub fn as_found() -> Self {
        Self::new(None, None)
    }

    /// A variant with a label made from what it asks for.
    #[must_use]
    pub fn new(policy: Option<Policy>, timer_slack: Option<Duration>) -> Self {
        let mut words = Vec::new();
        words.extend(policy.map(|p| p.to_string()));
        words.extend(timer_slack.map(|s| format!("slack {}", format_duration(s))));
        let label = if words.is_empty() { "as found".to_owned() } else { words.join(", ") };
        Self { label, policy, timer_slack }
    }

    /// Every policy with every slack; an empty list stands for 'as found'.
    pub fn product(policies: &[Policy], slacks: &[Duration]) -> Result<Vec<Self>, BadVariant> {
        fn or_as_found<T: Clone>(list: &[T]) -> Vec<Option<T>> {
            if list.is_empty() { vec![None] } else { list.iter().cloned().map(Some).collect() }
        }
        let mut variants: Vec<Self> = Vec::new();
        for policy in or_as_found(policies) {
            for slack in or_as_found(slacks) {
                let variant = Self::new(policy, slack);
                if variants.iter().any(|v| v.label == variant.label) {
                    return Err(BadVariant(variant.label));
                }
                variants.push(variant);
            }
        }
        Ok(variants)
    }

    /// The conditions that this variant adds to the base.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        Conditions { policy: self.policy, timer_slack: self.timer_slack, ..Conditions::default() }
    }

    /// Whether a thread under this variant can keep a CPU from others.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_real_time)
    }
}
