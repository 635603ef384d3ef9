//! Which series of two sides belong together, and which runs took turns.

use std::collections::BTreeMap;

use punctual_record::Identity;
use serde::Serialize;

use super::side::{Measured, Side};
use super::{Options, RunName};

/// A series that cannot be compared, since the other side does not have it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// Label of its conditions.
    pub conditions: String,
    /// Why.
    pub why: String,
}

/// Series that belong together, and the others.
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<(&'a Identity, &'a Measured, &'a Measured)>,
    pub(super) unmatched: Vec<Unmatched>,
}

/// Why a series has no partner.
const ONLY_OLD: &str = "only in the old runs";
pub(super) const ONLY_NEW: &str = "only in the new runs";

type Left<'a> = (&'a Identity, &'a Measured);

/// Puts together what was measured on both sides.
pub(super) fn matched<'a>(old: &'a Side, new: &'a Side, options: Options) -> Matched<'a> {
    let mut pairs: Vec<_> = old
        .series
        .iter()
        .filter_map(|(identity, measured)| Some((identity, measured, new.series.get(identity)?)))
        .collect();
    let mut left_new: BTreeMap<_, Vec<Left<'a>>> = BTreeMap::new();
    for (identity, measured) in new.series.iter().filter(|(identity, _)| !old.series.contains_key(identity)) {
        left_new.entry(thing(identity)).or_default().push((identity, measured));
    }
    let mut unmatched = Vec::new();
    for (identity, measured) in old.series.iter().filter(|(identity, _)| !new.series.contains_key(identity)) {
        let others = left_new.get_mut(&thing(identity)).filter(|others| !others.is_empty());
        let Some(others) = others else {
            unmatched.push(only(identity, measured, ONLY_OLD));
            continue;
        };
        // Of several, the one with the same label; otherwise the first.
        let place = others.iter().position(|(_, other)| other.label == measured.label).unwrap_or(0);
        let (other, its) = others.remove(place);
        if options.across_conditions {
            pairs.push((identity, measured, its));
        } else {
            let what = differences(&identity.conditions, &other.conditions);
            unmatched.push(only(identity, measured, &format!("other conditions: {what}")));
        }
    }
    let rest = left_new.into_values().flatten();
    unmatched.extend(rest.map(|(identity, measured)| only(identity, measured, ONLY_NEW)));
    Matched { pairs, unmatched }
}

/// All but the conditions.
fn thing(identity: &Identity) -> (&str, &str, &str, punctual_record::Quantity) {
    (&identity.experiment, &identity.subject, &identity.parameters, identity.quantity)
}

fn only(identity: &Identity, measured: &Measured, why: &str) -> Unmatched {
    Unmatched {
        experiment: identity.experiment.clone(),
        subject: identity.subject.clone(),
        conditions: measured.label.clone(),
        why: why.to_owned(),
    }
}

/// What is different between two sets of conditions as they held: `timer slack 50000 ns -> 1 ns`.
fn differences(old: &str, new: &str) -> String {
    fn facts(key: &str) -> BTreeMap<&str, &str> {
        key.split(';').filter_map(|fact| fact.split_once('=')).collect()
    }
    let (old, new) = (facts(old), facts(new));
    let names: std::collections::BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let shown = |value: Option<&&str>| value.map_or("as it was found", |value| value.trim_matches('"')).to_owned();
    let changed = names.into_iter().filter(|name| old.get(name) != new.get(name)).map(|name| {
        let words = name.replace('_', " ");
        format!("{words} {} -> {}", shown(old.get(name)), shown(new.get(name)))
    });
    changed.collect::<Vec<_>>().join(", ")
}

/// The pairs of neighbours (place of the old run, place of the new one) if old and new runs took turns: as many of either, at least two,
/// and, in the order of time, each two that follow each other are one of either.
pub(super) fn turns(old: &Side, new: &Side) -> Option<Vec<(usize, usize)>> {
    if old.len() != new.len() || old.len() < 2 {
        return None;
    }
    let times = |side: &Side, is_new: bool| {
        side.runs.iter().enumerate().map(|(place, run)| (run.source.started, is_new, place)).collect::<Vec<_>>()
    };
    let mut order = [times(old, false), times(new, true)].concat();
    order.sort();
    let pair = |two: &[(jiff::Timestamp, bool, usize)]| match two {
        [(_, false, a), (_, true, b)] | [(_, true, b), (_, false, a)] => Some((*a, *b)),
        _ => None,
    };
    order.chunks(2).map(pair).collect()
}

impl RunName {
    /// The file, with a word where the run was interrupted.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.complete { self.file.clone() } else { format!("{} (interrupted)", self.file) }
    }
}
