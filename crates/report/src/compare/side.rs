//! One side of a comparison, and the series that it shares with the other side. Its runs are digested one by one, so large
//! files need not stay in memory.
//!
//! Takes runs (a merged run counts as its parts). Returns, for each series, its figures in each run with their noise. A
//! run given twice and a run with two identical series are refused. Runs of both sides that alternated are found by time.

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, slice};

use punctual_record::sanitize::{self, NAME};
use punctual_record::{
    CallCauses, Cause, CauseSource, ConditionSet, Distribution, Host, Identity, LatePart, Param, Quantity, Run, Series,
    Setting, Source, identities, telling,
};
use serde::Serialize;

use crate::compare::outcome::Change;
use crate::evidence::difference::{self, InRun};
use crate::evidence::{Figure, Look, Missing, Reading, noise};
use crate::format::naming::{self, AS_FOUND};
use crate::pictures::Curve;

/// A series' subject for an error: the file may call it anything.
fn subject_of(series: &Series) -> String {
    sanitize::line(&series.subject, NAME)
}

/// Why a run cannot be added to this side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SideError {
    /// The run that began then is there already.
    #[error("the run that began at {0} was given twice; it would seem to agree with itself; name each run once")]
    Twice(jiff::Timestamp),
    /// The run has two identical series of this subject.
    #[error("it has two series of {0} that differ in nothing but their figures; the file was altered")]
    Ambiguous(String),
    /// The unit is not nanoseconds.
    #[error("the figures of {subject} are in {unit}, not in ns; it was written by another program")]
    Unit {
        /// The subject.
        subject: String,
        /// Its unit.
        unit: String,
    },
    /// The parts of this subject contradict its rounds.
    #[error("the parts of {0} do not fit its rounds; the file was altered")]
    Parts(String),
}

/// The runs of one side.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// The runs, in the order in which they were given.
    pub(super) runs: Vec<RunFacts>,
    pub(super) series: BTreeMap<Identity, Measured>,
    /// The causes of those runs that have some.
    pub(super) causes: Vec<Recorded>,
}

/// The stored part of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunFacts {
    /// Name of its file.
    pub(super) name: String,
    /// Everything but its figures.
    pub(super) source: Source,
}

/// A series in the runs that have it.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// The label of its conditions, in the first run that has it.
    pub(super) label: String,
    /// Its parameters.
    pub(super) parameters: BTreeMap<String, Param>,
    /// Its conditions, in that run.
    pub(super) settings: BTreeMap<String, Setting>,
    /// One entry per run.
    pub(super) entries: Vec<Entry>,
    /// Its percentiles in each file whose samples can be decoded.
    pub(super) curves: Vec<Curve>,
}

/// A series in one run.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Index of the run in the side.
    pub(super) run: usize,
    /// Number of samples.
    pub(super) count: u64,
    /// In the order of [`Figure::ALL`].
    pub(super) readings: [Result<Reading, Missing>; 3],
    /// Where its 99th percentile may lie; `None` without a histogram.
    pub(super) tail: Option<Box<[f64]>>,
}

impl Entry {
    /// A figure of it; `None` where the run has no reading.
    pub(super) fn figure(&self, figure: Figure) -> Option<InRun<'_>> {
        let reading = self.readings[figure as usize].as_ref().ok()?;
        let places = || self.tail.as_deref().unwrap_or(slice::from_ref(&reading.place));
        Some(InRun { run: self.run, reading: *reading, places: (figure == Figure::P99).then(places) })
    }
}

impl Side {
    /// A side without runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run from the file `name`.
    ///
    /// # Errors
    /// See [`SideError`].
    pub fn add(&mut self, name: &str, run: &Run) -> Result<(), SideError> {
        let first = self.runs.len();
        for source in run.sources() {
            if self.runs.iter().any(|known| known.source == source) {
                return Err(SideError::Twice(source.started));
            }
            self.runs.push(RunFacts { name: name.to_owned(), source });
        }
        self.causes.extend(Recorded::from_run(first, run));
        let mut seen = BTreeSet::new();
        for (series, identity) in run.series.iter().zip(identities(run)) {
            if series.unit != "ns" {
                return Err(SideError::Unit { subject: subject_of(series), unit: sanitize::line(&series.unit, NAME) });
            }
            let distribution = Distribution::from_series(series).ok();
            let curve = distribution.as_ref().map(Curve::from_samples);
            let entries = entries(run, series, first, distribution.as_ref())?;
            if !seen.insert(identity.clone()) {
                return Err(SideError::Ambiguous(subject_of(series)));
            }
            let set = run.conditions.iter().find(|set| set.label == series.conditions);
            let measured = self.series.entry(identity).or_insert_with(|| Measured {
                label: naming::label_of(run, &series.conditions),
                parameters: series.experiment.parameters(),
                settings: set.map_or_else(BTreeMap::new, settings),
                entries: Vec::new(),
                curves: Vec::new(),
            });
            measured.entries.extend(entries);
            measured.curves.extend(curve);
        }
        Ok(())
    }

    /// The start time of a run that is on both sides.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Option<String> {
        let both = self.runs.iter().find(|mine| other.runs.iter().any(|theirs| theirs.source == mine.source));
        both.map(|run| run.source.started.to_string())
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.runs.iter().map(|run| &run.source.host)
    }
}

/// The settings in which a set differs from others.
fn settings(set: &ConditionSet) -> BTreeMap<String, Setting> {
    telling(set).into_iter().map(|(name, setting)| (name.to_owned(), setting.clone())).collect()
}

/// The series of each run in the file.
fn entries(
    run: &Run,
    series: &Series,
    first: usize,
    distribution: Option<&Distribution>,
) -> Result<Vec<Entry>, SideError> {
    if series.parts.is_empty() {
        let granularity = run.clock.granularity_ns;
        let look = Look { summary: &series.summary, cpu: series.cpu_ns_per_op, rounds: &series.rounds, granularity };
        return Ok(vec![entry(&look, first, distribution)]);
    }
    let wrong = || SideError::Parts(subject_of(series));
    let mut rounds = series.rounds.as_slice();
    let mut entries = Vec::with_capacity(series.parts.len());
    for part in &series.parts {
        let source = run.merged_from.get(part.source as usize).ok_or_else(wrong)?;
        let (own, rest) = rounds.split_at_checked(part.rounds as usize).ok_or_else(wrong)?;
        rounds = rest;
        let granularity = source.clock.granularity_ns;
        let look = Look { summary: &part.summary, cpu: part.cpu_ns_per_op, rounds: own, granularity };
        entries.push(entry(&look, first + part.source as usize, None));
    }
    Ok(entries)
}

fn entry(look: &Look<'_>, run: usize, distribution: Option<&Distribution>) -> Entry {
    let tail = distribution.and_then(difference::places).map(Box::from);
    Entry { run, count: look.summary.count, readings: look.readings(distribution), tail }
}

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
    #[serde(serialize_with = "as_text")]
    pub why: WhyUnmatched,
}

/// Why a series has no partner on the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnmatched {
    /// The new runs have no such series.
    OnlyOld,
    /// The old runs have no such series.
    OnlyNew,
    /// The two command lines asked for other conditions: the phrases of the old and the new ones.
    AskedOtherwise(Vec<(String, String)>),
    /// They asked for other parameters, as another interval: the old and the new ones, and conditions that differ too.
    OtherParameters(Vec<(String, String)>),
}

impl fmt::Display for WhyUnmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, phrases) = match self {
            Self::OnlyOld => return f.write_str("only in the old runs"),
            Self::OnlyNew => return f.write_str("only in the new runs"),
            Self::AskedOtherwise(phrases) => ("conditions", phrases),
            Self::OtherParameters(phrases) => ("parameters", phrases),
        };
        let phrases: Vec<String> = phrases.iter().map(|(old, new)| format!("{old} -> {new}")).collect();
        write!(f, "other {what} were asked for: {}", phrases.join(", "))
    }
}

fn as_text<S: serde::Serializer>(why: &WhyUnmatched, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(why)
}

/// A series of both sides.
pub(super) struct Pair<'a> {
    pub(super) identity: &'a Identity,
    pub(super) old: &'a Measured,
    pub(super) new: &'a Measured,
    /// The settings that did not hold alike.
    pub(super) changed: Vec<Change>,
}

/// Matched series, and the others.
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<Pair<'a>>,
    pub(super) unmatched: Vec<Unmatched>,
}

type Left<'a> = (&'a Identity, &'a Measured);

/// Matches the series of both sides. A setting that both sides asked for alike, or not at all, may hold otherwise: the machine has
/// changed. `across_conditions`: what was asked may differ too, also a parameter, where each side has one series of the subject left.
pub(super) fn matched<'a>(old: &'a Side, new: &'a Side, across_conditions: bool) -> Matched<'a> {
    let mut pairs: Vec<_> = old
        .series
        .iter()
        .filter_map(|(identity, old)| Some(Pair { identity, old, new: new.series.get(identity)?, changed: Vec::new() }))
        .collect();
    let mut left_new: BTreeMap<_, Vec<Left<'a>>> = BTreeMap::new();
    for (identity, measured) in new.series.iter().filter(|(identity, _)| !old.series.contains_key(identity)) {
        left_new.entry(thing(identity)).or_default().push((identity, measured));
    }
    let (mut unmatched, mut left_old) = (Vec::new(), Vec::new());
    for (identity, measured) in old.series.iter().filter(|(identity, _)| !new.series.contains_key(identity)) {
        let others = left_new.get_mut(&thing(identity)).filter(|others| !others.is_empty());
        let Some(others) = others else {
            left_old.push((identity, measured));
            continue;
        };
        // Of several candidates, one of the same request; then the one with the same label; otherwise the first.
        let asked_alike = others.iter().position(|(_, other)| asked_otherwise(measured, other).is_empty());
        let same_label = || others.iter().position(|(_, other)| other.label == measured.label);
        let (_, partner) = others.remove(asked_alike.or_else(same_label).unwrap_or(0));
        let asked = phrases(asked_otherwise(measured, partner));
        if across_conditions || asked.is_empty() {
            pairs.push(Pair { identity, old: measured, new: partner, changed: changed(measured, partner) });
        } else {
            unmatched.push(only(identity, measured, WhyUnmatched::AskedOtherwise(asked)));
        }
    }
    let mut left_new: Vec<Left<'a>> = left_new.into_values().flatten().collect();
    for &(identity, measured) in &left_old {
        let Some((_, partner)) = take_its_like(identity, &left_old, &mut left_new) else {
            unmatched.push(only(identity, measured, WhyUnmatched::OnlyOld));
            continue;
        };
        let mut other = other_parameters(measured, partner);
        if across_conditions {
            other.extend(changed(measured, partner));
            pairs.push(Pair { identity, old: measured, new: partner, changed: other });
        } else {
            let mut told: Vec<_> = other.into_iter().map(|change| (change.old, change.new)).collect();
            told.extend(phrases(asked_otherwise(measured, partner)));
            unmatched.push(only(identity, measured, WhyUnmatched::OtherParameters(told)));
        }
    }
    unmatched.extend(left_new.into_iter().map(|(identity, measured)| only(identity, measured, WhyUnmatched::OnlyNew)));
    Matched { pairs, unmatched }
}

/// The new series that is as this old one but for its parameters. Of several on a side, nothing says which it would be: then there is none.
fn take_its_like<'a>(old: &Identity, left_old: &[Left<'a>], left_new: &mut Vec<Left<'a>>) -> Option<Left<'a>> {
    let is_like = |(other, _): &&Left<'a>| {
        (&other.experiment, &other.subject, other.quantity) == (&old.experiment, &old.subject, old.quantity)
    };
    let alone = [left_old, left_new.as_slice()].iter().all(|left| left.iter().filter(is_like).count() == 1);
    let place = left_new.iter().position(|left| is_like(&left)).filter(|_| alone)?;
    Some(left_new.remove(place))
}

/// The parameters that were asked for otherwise, as a person says them.
fn other_parameters(old: &Measured, new: &Measured) -> Vec<Change> {
    let told = |name: &str, value: Option<&Param>| {
        value.map_or_else(|| format!("no {}", name.replace('_', " ")), |value| naming::spoken_parameter(name, value))
    };
    let both = of_both(&old.parameters, &new.parameters).filter(|(_, old, new)| old != new);
    both.map(|(name, old, new)| Change { what: name.to_owned(), old: told(name, old), new: told(name, new) }).collect()
}

/// The identity without conditions.
fn thing(identity: &Identity) -> (&str, &str, &str, Quantity) {
    (&identity.experiment, &identity.subject, &identity.parameters, identity.quantity)
}

fn only(identity: &Identity, measured: &Measured, why: WhyUnmatched) -> Unmatched {
    Unmatched {
        experiment: identity.experiment.clone(),
        subject: identity.subject.clone(),
        quantity: identity.quantity,
        conditions: measured.label.clone(),
        why,
    }
}

/// A fact by its name, on the old and on the new side.
type OfBoth<'a, T> = (&'a str, Option<&'a T>, Option<&'a T>);
type Settings<'a> = OfBoth<'a, Setting>;

/// All that either side has.
pub(super) fn of_both<'a, T>(
    old: &'a BTreeMap<String, T>,
    new: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = OfBoth<'a, T>> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name.as_str(), old.get(name), new.get(name)))
}

/// The settings that did not hold alike.
fn held_otherwise<'a>(old: &'a Measured, new: &'a Measured) -> Vec<Settings<'a>> {
    let both = of_both(&old.settings, &new.settings);
    let applied = |setting: Option<&'a Setting>| setting.map(|setting| &setting.applied);
    both.filter(|&(_, old, new)| applied(old) != applied(new)).collect()
}

/// Those of them that were asked for otherwise.
fn asked_otherwise<'a>(old: &'a Measured, new: &'a Measured) -> Vec<Settings<'a>> {
    let asked = |setting: Option<&'a Setting>| setting.and_then(|setting| setting.asked.as_ref());
    held_otherwise(old, new).into_iter().filter(|&(_, old, new)| asked(old) != asked(new)).collect()
}

fn phrases(settings: Vec<Settings<'_>>) -> Vec<(String, String)> {
    settings.into_iter().map(|(_, old, new)| (phrase(old), phrase(new))).collect()
}

fn phrase(setting: Option<&Setting>) -> String {
    setting.map_or(AS_FOUND, |setting| setting.phrase.as_str()).to_owned()
}

fn changed(old: &Measured, new: &Measured) -> Vec<Change> {
    let change = |(name, old, new): Settings<'_>| Change { what: name.to_owned(), old: phrase(old), new: phrase(new) };
    held_otherwise(old, new).into_iter().map(change).collect()
}

/// The pairs of neighbours (index of the old run, index of the new one) if old and new runs alternated. This requires
/// equal numbers of at least two, and one of either in each consecutive pair by time.
pub(super) fn pairs(old: &Side, new: &Side) -> Option<Vec<(usize, usize)>> {
    if old.runs.len() != new.runs.len() || old.runs.len() < 2 {
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

/// Differences between runs that no run shows, as a share of the lateness of the call.
const FLOOR: f64 = 0.01;

/// A call of threads of one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) nominal_ns: Option<u64>,
    pub(super) thread: String,
    pub(super) name: String,
}

/// A part of the lateness and its cause.
pub(super) type Key = (LatePart, Cause);

/// Time lost per wake-up: on average, and in consecutive stretches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lost {
    pub(super) each_ns: f64,
    stretches_ns: Vec<f64>,
}

/// The causes of a call. They add up to its lateness, so that what is not among them took no time.
#[derive(Debug, Clone, Default)]
pub(super) struct Blamed {
    pub(super) causes: BTreeMap<Key, Lost>,
    pub(super) culprits: BTreeMap<(Key, String), Lost>,
    late_ns: f64,
    stretches: usize,
}

/// The causes of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorded {
    /// Index of the run in its side.
    pub(super) run: usize,
    pub(super) calls: BTreeMap<Call, Blamed>,
    /// What could not be seen: a time that one run cannot see is among other causes there.
    pub(super) unseen: BTreeSet<String>,
}

impl Recorded {
    /// `None`: the run has none.
    pub(super) fn from_run(number: usize, run: &Run) -> Option<Self> {
        let causes = run.causes.as_ref().filter(|causes| causes.source == CauseSource::Tracepoints)?;
        let recorded = |call: &CallCauses| {
            let key = Call { nominal_ns: call.nominal_ns, thread: call.thread.clone(), name: call.call.clone() };
            (key, Blamed::from_call(call))
        };
        let calls = causes.calls.iter().filter(|call| call.late.count > 0).map(recorded).collect();
        let unseen = causes.missing.iter().map(|missing| missing.what.clone()).collect();
        Some(Self { run: number, calls, unseen })
    }
}

impl Blamed {
    fn from_call(call: &CallCauses) -> Self {
        let count = call.late.count as f64;
        let mut blamed = Self {
            late_ns: call.late.total_ns as f64 / count,
            stretches: call.causes.iter().map(|one| one.stretches_ns.len()).max().unwrap_or(0),
            ..Self::default()
        };
        for one in &call.causes {
            let key = (one.part, one.cause);
            let each_ns = one.time.total_ns as f64 / count;
            blamed.causes.entry(key).or_default().add(each_ns, &one.stretches_ns);
            if let Some(culprit) = &one.culprit {
                blamed.culprits.entry((key, culprit.clone())).or_default().add(each_ns, &one.stretches_ns);
            }
        }
        blamed
    }

    /// A time with its noise; of a cause that is not there, zero in every stretch. `None`: too few stretches.
    pub(super) fn reading(&self, lost: Option<&Lost>) -> Option<Reading> {
        let absent = Lost { each_ns: 0.0, stretches_ns: vec![0.0; self.stretches] };
        let lost = lost.unwrap_or(&absent);
        let noise = noise::wandering(&lost.stretches_ns).filter(|_| lost.each_ns.is_finite())?;
        Some(Reading { place: lost.each_ns, noise, floor: (FLOOR * self.late_ns).max(1.0).powi(2) })
    }
}

impl Lost {
    fn add(&mut self, each_ns: f64, stretches_ns: &[f64]) {
        self.each_ns += each_ns;
        self.stretches_ns.resize(self.stretches_ns.len().max(stretches_ns.len()), 0.0);
        self.stretches_ns.iter_mut().zip(stretches_ns).for_each(|(sum, ns)| *sum += ns);
    }
}
