//! Figures, names and small drawings as text, in Unicode: what every part of a report is written with. It knows no document.
//!
//! This file has what belongs together in groups and in lists, and text of a run as a document may hold it.

pub(crate) mod naming;
pub(crate) mod units;

pub(crate) use crate::format::units::spoken;

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Distribution, Series};

/// In groups by a key, in the order in which each key first appears.
pub(crate) fn grouped<T: Copy, K: Ord + Clone>(all: &[T], key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    gathered(all.iter().map(|one| (key(one), *one)))
}

/// What belongs to each key, in the order in which each key first appears.
pub(crate) fn gathered<K: Ord + Clone, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for (key, one) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

/// Each once, in the order in which it first appears.
pub(crate) fn distinct<T: Ord + Clone>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|one| seen.insert(one.clone())).collect()
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

/// The text in this many letters; an ellipsis stands for what is cut off.
pub(crate) fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
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

// A series' histogram, decoded and drawn as a few characters.
//
// Takes the `histogram` field of a series (HdrHistogram V2, base64). Returns bins on a logarithmic scale that all rows of a
// table share, and their drawing. What cannot be decoded, contradicts the figures or is absurdly large is refused as `None`:
// it is shown as missing.

/// Longest base64 text that is decoded: a histogram of five digits over the whole range of 64 bits is smaller.
const LONGEST: usize = 64 << 20;

/// From where to where a drawing goes, logarithmically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Left end in ns, 1 or more.
    pub(crate) low_ns: i64,
    /// Right end in ns, more than the left one.
    pub(crate) high_ns: i64,
}

impl Scale {
    /// The scale on which all of `series` fit; `None` when none has figures. Samples of zero and below go to the left end.
    pub(crate) fn over<'a>(series: impl IntoIterator<Item = &'a Series>) -> Option<Self> {
        let mut ends: Option<(i64, i64)> = None;
        for summary in series.into_iter().map(|series| &series.summary) {
            let (Some(min), Some(max)) = (summary.min, summary.max) else { continue };
            let (low, high) = ends.unwrap_or((min, max));
            ends = Some((low.min(min), high.max(max)));
        }
        let low_ns = ends?.0.max(1);
        Some(Self { low_ns, high_ns: ends?.1.max(low_ns.saturating_add(1)) })
    }

    /// The bin of `bins` into which `ns` falls; what lies beyond an end falls into the bin at that end.
    fn bin(&self, ns: i64, bins: usize) -> usize {
        if ns <= self.low_ns {
            return 0;
        }
        let span = (self.high_ns as f64 / self.low_ns as f64).ln();
        let place = (ns as f64 / self.low_ns as f64).ln() / span * bins as f64;
        (place as usize).min(bins.saturating_sub(1))
    }
}

/// How many samples of `series` fall into each of `bins` bins. `None` without histograms that can be decoded and agree with the
/// figures.
pub(crate) fn bins(series: &Series, scale: Scale, bins: usize) -> Option<Vec<u64>> {
    let longest = [&series.histogram, &series.negative_histogram].into_iter().flatten().map(String::len).max()?;
    if longest > LONGEST {
        return None;
    }
    let distribution = Distribution::from_series(series).ok()?;
    let mut counts = vec![0_u64; bins];
    for bucket in distribution.buckets() {
        add(&mut counts[scale.bin(bucket.high, bins)], bucket.count);
    }
    let (below, above) = distribution.overflow();
    add(counts.first_mut()?, below);
    add(counts.last_mut()?, above);
    Some(counts)
}

/// A file may claim any count: the sum stays at the top rather than wrap.
fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

/// Bins as characters, the height logarithmic, as latency histograms are drawn: otherwise no tail would show.
///
/// Each level is half a decade. The highest holds more than a third of the fullest bin. The next holds a tenth to a
/// third, and so on. The lowest holds everything rarer, down to a single sample. An empty bin is a space.
pub(crate) fn draw(counts: &[u64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let fullest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let below = |count: u64| ((fullest / count as f64).log10() * 2.0) as usize;
    let level = |count: u64| BLOCKS[(BLOCKS.len() - 1).saturating_sub(below(count))];
    counts.iter().map(|&count| if count == 0 { ' ' } else { level(count) }).collect()
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

    #[test]
    fn one_sample_shows_and_none_does_not() {
        let counts = [0, 1, 11, 200, 1_000_000_000, 999_999_999];
        assert_eq!(draw(&counts), " ▁▁▁██");
        assert_eq!(draw(&[0, 1, 11, 200, 1000]), " ▂▅▇█");
    }

    proptest! {
        #[test]
        fn every_value_has_a_bin(low in 1i64..1_000_000, span in 1i64..1_000_000_000, ns in any::<i64>(), n in 1usize..20) {
            let scale = Scale { low_ns: low, high_ns: low + span };
            prop_assert!(scale.bin(ns, n) < n);
            prop_assert_eq!(scale.bin(low, n), 0);
            prop_assert_eq!(scale.bin(low + span, n), n - 1);
        }
    }
}
