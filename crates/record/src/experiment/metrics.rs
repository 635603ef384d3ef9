//! What an experiment was asked and what came out, and the rules that combine the metrics of two runs. A metric that one run lacks
//! is unknown for both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Parameters and metrics of one experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Typed<P, M: Default + PartialEq> {
    /// What was asked.
    pub parameters: P,
    /// What came out beside the samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: M,
}

impl<P, M: Default + PartialEq> Typed<P, M> {
    /// These parameters, nothing measured yet.
    pub fn asked(parameters: P) -> Self {
        Self { parameters, metrics: M::default() }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A struct of metrics, each with the rule by which those of two runs are merged (a function of this file).
macro_rules! metrics {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty => $rule:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$kind>,
            )*
        }

        impl $name {
            #[allow(unused_variables, reason = "an experiment may have no metrics")]
            pub(crate) fn merge(&mut self, other: &Self, weights: (u64, u64)) {
                $(self.$field = $crate::experiment::metrics::$rule(self.$field.take(), other.$field.clone(), weights);)*
            }
        }
    };
}

/// The samples behind each of the two.
pub(crate) type Weights = (u64, u64);

/// A number that can be averaged.
pub(super) trait Average {
    fn average(self, other: Self, weights: Weights) -> Self;
}

impl Average for f64 {
    fn average(self, other: Self, (n, m): Weights) -> Self {
        let all = n as f64 + m as f64;
        if all > 0.0 { self * (n as f64 / all) + other * (m as f64 / all) } else { self }
    }
}

impl Average for i64 {
    fn average(self, other: Self, weights: Weights) -> Self {
        (self as f64).average(other as f64, weights).round() as i64
    }
}

/// The mean, weighted by samples.
pub(super) fn mean<T: Average>(mine: Option<T>, other: Option<T>, weights: Weights) -> Option<T> {
    Some(mine?.average(other?, weights))
}

/// The sum of both counts.
pub(super) fn sum(mine: Option<u64>, other: Option<u64>, _: Weights) -> Option<u64> {
    Some(mine?.saturating_add(other?))
}

/// The smaller value.
pub(super) fn least<T: Ord>(mine: Option<T>, other: Option<T>, _: Weights) -> Option<T> {
    Some(mine?.min(other?))
}

/// The value on which both agree.
pub(super) fn same<T: PartialEq>(mine: Option<T>, other: Option<T>, _: Weights) -> Option<T> {
    if mine == other { mine } else { None }
}

/// One list after the other.
pub(super) fn joined<T: Clone>(mine: Option<Vec<T>>, other: Option<Vec<T>>, _: Weights) -> Option<Vec<T>> {
    Some([mine?, other?].concat())
}

/// The mean of each entry; an entry that one lacks counts as zero there.
pub(super) fn mean_of_each(
    mine: Option<BTreeMap<u64, f64>>,
    other: Option<BTreeMap<u64, f64>>,
    weights: Weights,
) -> Option<BTreeMap<u64, f64>> {
    let (mine, other) = (mine?, other?);
    let share = |map: &BTreeMap<u64, f64>, key| map.get(&key).copied().unwrap_or(0.0);
    let keys = mine.keys().chain(other.keys()).copied();
    Some(keys.map(|key| (key, share(&mine, key).average(share(&other, key), weights))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_does_what_it_says() {
        assert_eq!(mean(Some(10.0), Some(40.0), (2, 1)), Some(20.0));
        assert_eq!(mean(Some(10_i64), Some(40), (1, 2)), Some(30));
        assert_eq!(mean(Some(10.0), None, (2, 1)), None);
        assert_eq!(mean(Some(10.0), Some(4.0), (0, 0)), Some(10.0));
        assert_eq!(sum(Some(u64::MAX), Some(1), (1, 1)), Some(u64::MAX));
        assert_eq!(least(Some(3), Some(2), (9, 1)), Some(2));
        assert_eq!(same(Some("a"), Some("a"), (1, 1)), Some("a"));
        assert_eq!(same(Some("a"), Some("b"), (1, 1)), None);
        assert_eq!(joined(Some(vec![1]), Some(vec![2, 1]), (1, 1)), Some(vec![1, 2, 1]));
        assert_eq!(joined(Some(vec![1]), None, (1, 1)), None);
        let (one, other) = (BTreeMap::from([(1, 1.0)]), BTreeMap::from([(2, 1.0)]));
        assert_eq!(mean_of_each(Some(one), Some(other), (1, 3)), Some(BTreeMap::from([(1, 0.25), (2, 0.75)])));
    }
}
