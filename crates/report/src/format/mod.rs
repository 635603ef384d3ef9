//! Figures, names and small drawings as text, in Unicode: what every part of a report is written with. It knows no document.
//!
//! This file has what belongs together in groups and in lists, and text of a run as a document may hold it.

pub(crate) mod distribution;
pub(crate) mod naming;
pub(crate) mod units;

pub(crate) use units::spoken;

use std::collections::{BTreeMap, BTreeSet};

/// In groups by a key, in the order in which each key first appears.
pub(crate) fn grouped<T: Copy, K: Ord + Clone>(all: &[T], key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for one in all {
        let key = key(one);
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(*one),
            None => groups.push((key, vec![*one])),
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

/// `a`, `a and b`, `a, b and c`; more than `most` names end with `and N others`.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.len() > most => {
            format!("{} and {} others", names[..most - 1].join(", "), names.len() - most + 1)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The text with a full stop, unless it is empty or ends a sentence already.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Text whose words stay on one line: every space in it becomes a no-break space.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// `text` on one line with everything that a terminal would obey replaced by `?`; cut after 1000 characters.
pub(crate) fn sanitize(text: &str) -> String {
    const LONGEST: usize = 1000;
    punctual_record::sanitize::line(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_end_with_and() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(listed(&names[..1], 3), "a");
        assert_eq!(listed(&names[..2], 3), "a and b");
        assert_eq!(listed(&names[..3], 3), "a, b and c");
        assert_eq!(listed(&names, 3), "a, b and 2 others");
    }

    #[test]
    fn escape_sequences_lose_their_escape() {
        assert_eq!(sanitize("a\x1b[31mred\x07\u{9b}2J\u{202e}"), "a?[31mred??2J?");
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_survives(text in any::<String>()) {
            prop_assert!(!sanitize(&text).chars().any(char::is_control));
        }
    }
}
