//! What belongs together, in the order in which it first appears.

use std::collections::{BTreeMap, BTreeSet};

/// In groups by a key, in the order in which each key first appears.
pub(crate) fn grouped<T: Copy, K: Ord + Clone>(all: &[T], key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for one in all {
        let its = key(one);
        let place = *places.entry(its.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(*one),
            None => groups.push((its, vec![*one])),
        }
    }
    groups
}

/// Each once, in the order in which it first appears.
pub(crate) fn distinct<T: Ord + Copy>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(*one)).collect()
}

/// How often each occurs.
pub(crate) fn counted<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}
