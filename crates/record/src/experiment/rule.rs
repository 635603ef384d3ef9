//! Rules that combine a metric of two runs. A metric that one run lacks is unknown for both.

use std::collections::BTreeMap;

/// The samples behind each of the two.
pub(super) type Weights = (u64, u64);

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

/// Both counts together.
pub(super) fn sum(mine: Option<u64>, other: Option<u64>, _: Weights) -> Option<u64> {
    Some(mine?.saturating_add(other?))
}

/// The smaller one.
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
    let of = |map: &BTreeMap<u64, f64>, key| map.get(&key).copied().unwrap_or(0.0);
    let keys = mine.keys().chain(other.keys()).copied();
    Some(keys.map(|key| (key, of(&mine, key).average(of(&other, key), weights))).collect())
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
