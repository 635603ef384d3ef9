//! Matches the series of two sides, and finds runs that alternated.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Identity, Quantity, Setting};
use serde::Serialize;

use crate::naming::AS_FOUND;

use super::side::{Measured, Side};

/// A series that cannot be compared, because the other side does not have the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// What its figures are.
    pub quantity: Quantity,
    /// Label of its conditions.
    pub conditions: String,
    /// Why.
    pub why: String,
}

/// Matched series, and the others.
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<(&'a Identity, &'a Measured, &'a Measured)>,
    pub(super) unmatched: Vec<Unmatched>,
}

/// Why a series has no partner.
const ONLY_OLD: &str = "only in the old runs";
pub(super) const ONLY_NEW: &str = "only in the new runs";

type Left<'a> = (&'a Identity, &'a Measured);

/// Matches the series of both sides; `across_conditions`: those under other conditions too.
pub(super) fn matched<'a>(old: &'a Side, new: &'a Side, across_conditions: bool) -> Matched<'a> {
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
        // Of several candidates, the one with the same label; otherwise the first.
        let place = others.iter().position(|(_, other)| other.label == measured.label).unwrap_or(0);
        let (_, its) = others.remove(place);
        if across_conditions {
            pairs.push((identity, measured, its));
        } else {
            let what = differences(measured, its);
            unmatched.push(only(identity, measured, &format!("other conditions: {what}")));
        }
    }
    let rest = left_new.into_values().flatten();
    unmatched.extend(rest.map(|(identity, measured)| only(identity, measured, ONLY_NEW)));
    Matched { pairs, unmatched }
}

/// The identity without conditions.
fn thing(identity: &Identity) -> (&str, &str, &str, Quantity) {
    (&identity.experiment, &identity.subject, &identity.parameters, identity.quantity)
}

fn only(identity: &Identity, measured: &Measured, why: &str) -> Unmatched {
    Unmatched {
        experiment: identity.experiment.clone(),
        subject: identity.subject.clone(),
        quantity: identity.quantity,
        conditions: measured.label.clone(),
        why: why.to_owned(),
    }
}

/// The difference between two sets of conditions as they held: `slack 50 us -> slack 1 ns`.
fn differences(old: &Measured, new: &Measured) -> String {
    let names: BTreeSet<&String> = old.settings.keys().chain(new.settings.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        let (was, is) = (old.settings.get(name), new.settings.get(name));
        let phrase = |its: Option<&Setting>| its.map_or(AS_FOUND, |its| its.phrase.as_str()).to_owned();
        let same = was.map(|its| &its.applied) == is.map(|its| &its.applied);
        (!same).then(|| format!("{} -> {}", phrase(was), phrase(is)))
    });
    changed.collect::<Vec<_>>().join(", ")
}

/// The pairs of neighbours (index of the old run, index of the new one) if old and new runs alternated. This requires
/// equal numbers of at least two, and one of either in each consecutive pair by time.
pub(super) fn pairs(old: &Side, new: &Side) -> Option<Vec<(usize, usize)>> {
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
