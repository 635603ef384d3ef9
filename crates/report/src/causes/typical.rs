//! What makes a typical wake-up of our own waits late: causes that nearly every wake-up has, by their medians.
//!
//! A cause of few wake-ups has no part in the median, however much time it takes in all. A cause whose time varies by more than
//! itself between stretches of the run is left out.

use std::collections::BTreeMap;

use punctual_record::{CallCauses, Cause, CauseSource, CauseTime, LatePart, Run};

use crate::evidence::scatter;

use super::phrase::{Why, several};

/// Fewer wake-ups are not typical of anything.
const FEWEST: u64 = 100;
/// Fewer stretches show no scatter.
const STRETCHES: usize = 5;
/// The part of a call's wake-ups that must be split.
const SPLIT: f64 = 0.5;
/// The part of the wake-ups that must have a cause.
const NEARLY_ALL: f64 = 0.9;

/// A typical wake-up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Typical {
    /// How late it is, ns.
    pub(crate) late_ns: i64,
    /// Its causes, the most time first.
    pub(crate) shares: Vec<Share>,
}

/// What a cause takes of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    pub(crate) cause: Cause,
    /// `is timer slack`, `passes while cc1 runs`.
    pub(crate) predicate: String,
    pub(crate) ns: i64,
}

/// The wake-ups of our own waits of this nominal time; `None` where too few were watched and split.
pub(crate) fn typical(run: &Run, asked_ns: i64) -> Option<Typical> {
    let causes = run.causes.as_ref()?;
    if causes.source != CauseSource::Tracepoints || causes.program.is_some() {
        return None;
    }
    let asked_ns = u64::try_from(asked_ns).ok()?;
    let calls = causes.calls.iter().filter(|call| call.nominal_ns == Some(asked_ns));
    let call = calls.max_by_key(|call| call.late.count)?;
    let split = call.late.count as f64 >= SPLIT * call.blocked as f64;
    if !split || call.late.count < FEWEST {
        return None;
    }
    let mut causes: BTreeMap<Cause, Vec<&CauseTime>> = BTreeMap::new();
    for one in call.causes.iter().filter(|one| one.time.count > 0) {
        causes.entry(one.cause).or_default().push(one);
    }
    let guest = run.host.hypervisor.is_some();
    let mut shares: Vec<Share> = causes.into_iter().filter_map(|(cause, all)| share(call, cause, all, guest)).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    Some(Typical { late_ns: i64::try_from(call.late.p50_ns).unwrap_or(i64::MAX), shares })
}

/// What a cause takes of a typical wake-up, over its parts and culprits. `None` where most wake-ups lack it, or it scatters.
fn share(call: &CallCauses, cause: Cause, all: Vec<&CauseTime>, guest: bool) -> Option<Share> {
    let mut parts: BTreeMap<LatePart, Vec<&CauseTime>> = BTreeMap::new();
    for one in all {
        parts.entry(one.part).or_default().push(one);
    }
    let count = |causes: &[&CauseTime]| causes.iter().fold(0u64, |sum, one| sum.saturating_add(one.time.count)) as f64;
    parts.retain(|_, causes| count(causes) >= NEARLY_ALL * call.late.count as f64);
    // Several culprits have wake-ups of their own, or follow each other in one.
    let each = |causes: &Vec<&CauseTime>| {
        let wake_ups = count(causes).min(call.late.count as f64);
        causes.iter().map(|one| one.time.count as f64 * one.time.p50_ns as f64).sum::<f64>() / wake_ups
    };
    let ns: f64 = parts.values().map(each).sum();
    let counted: Vec<&CauseTime> = parts.into_values().flatten().collect();
    if ns <= scattered(&counted)? {
        return None;
    }
    let mut culprits: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for one in &counted {
        let total = culprits.entry(one.culprit.as_deref()).or_default();
        *total = total.saturating_add(one.time.total_ns);
    }
    let most = culprits.iter().max_by_key(|(_, total)| **total).map(|(name, _)| *name)?;
    let predicate = match most {
        Some(most) if culprits.len() > 1 => several(cause, most),
        culprit => Why { cause, culprit, guest }.predicate(),
    };
    Some(Share { cause, predicate, ns: ns.round() as i64 })
}

/// How much the time of these causes varies from stretch to stretch; `None` without stretches.
fn scattered(causes: &[&CauseTime]) -> Option<f64> {
    let stretches = causes.iter().map(|one| one.stretches_ns.len()).max().filter(|&count| count >= STRETCHES)?;
    let sum = |at: usize| causes.iter().filter_map(|one| one.stretches_ns.get(at)).sum::<f64>();
    let scatter = scatter(&(0..stretches).map(sum).collect::<Vec<_>>());
    scatter.is_finite().then_some(scatter)
}
