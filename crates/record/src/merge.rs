//! Merges runs of one kind: repeated runs of one machine, or the same run on several machines.
//!
//! Takes runs one by one through a [`Merger`] and returns a [`Run`]. Its histograms hold the samples of all runs and
//! its rounds follow each other. It still lists the contribution of each run ([`Series::parts`](crate::Series::parts),
//! [`Run::merged_from`]). Merging is associative: merging merged runs gives the same result as merging all at once.
//!
//! Refused: the same run given twice, runs timed by different clocks, and runs without a common series. Also series whose
//! figures contradict their histograms: adding those would invent samples. Causes are not merged: their percentiles cannot
//! be added, and the runs may have watched different threads. A notice says so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::contradiction::contradiction;
use crate::distribution::{self, Distribution};
use crate::identity::{Identity, identities, keys_by_label};
use crate::model::{ConditionSet, Disturbance, Host, Notice, Part, RoundFigures, Run, SCHEMA, Series, Tool};
use crate::sanitize::{self, NAME};

/// Adds runs together.
#[derive(Debug, Clone)]
pub struct Merger {
    run: Run,
    added: Vec<Added>,
    places: BTreeMap<Identity, usize>,
}

impl Merger {
    /// Begins with a run.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(first: Run) -> Result<Self, Error> {
        let frame = Run {
            series: Vec::new(),
            limits: Vec::new(),
            causes: None,
            paths: Vec::new(),
            merged_from: Vec::new(),
            not_measured: Vec::new(),
            ..first.clone()
        };
        let mut merger = Self { run: frame, added: Vec::new(), places: BTreeMap::new() };
        merger.take(first, 0)?;
        Ok(merger)
    }

    /// Adds another run. Do not use the merger after an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn add(&mut self, next: Run) -> Result<(), Error> {
        let clock = &self.run.clock.source;
        if next.clock.source != *clock {
            return Err(Error::OtherClock {
                found: sanitize::line(&next.clock.source, NAME),
                expected: sanitize::line(clock, NAME),
            });
        }
        if !identities(&next).iter().any(|identity| self.places.contains_key(identity)) {
            return Err(Error::NothingInCommon);
        }
        let before = self.run.elapsed_ns;
        merge(&mut self.run, &next);
        self.take(next, before)
    }

    /// The merged run, as a run of this program and this command line.
    ///
    /// # Errors
    /// If the merged figures of altered runs contradict each other.
    pub fn finish(self, tool: Tool, command: Vec<String>) -> Result<Run, Error> {
        let Self { mut run, added, .. } = self;
        run.series = added.into_iter().map(Added::finish).collect();
        // A subject that only one run could not measure has figures, so it is not missing.
        let measured: BTreeSet<_> = run.series.iter().map(|one| (one.experiment.name(), &*one.subject)).collect();
        run.not_measured.retain(|missing| {
            !measured.contains(&(&*missing.experiment, &*missing.subject))
                || missing.conditions.is_some()
                || !missing.parameters.is_empty()
        });
        run.schema = SCHEMA.into();
        run.tool = tool;
        run.command = command;
        match contradiction(&run) {
            Some(why) => Err(Error::Contradictory(why)),
            None => Ok(run),
        }
    }

    /// Adds the series of a run whose context is merged already. Its rounds begin `before` ns after those of the first
    /// run.
    fn take(&mut self, next: Run, before: u64) -> Result<(), Error> {
        add_new(&mut self.run.notices, next.causes.iter().map(|_| Notice::CausesNotMerged));
        let offset = self.run.merged_from.len() as u32;
        for source in next.sources() {
            if self.run.merged_from.contains(&source) {
                return Err(Error::Twice(source.started.to_string()));
            }
            self.run.merged_from.push(source);
        }
        let labels = conditions(&mut self.run.conditions, &next.conditions);
        let identities = identities(&next);
        let mut seen = BTreeSet::new();
        for (mut series, identity) in next.series.into_iter().zip(identities) {
            check(&series)?;
            if !seen.insert(identity.clone()) {
                return Err(Error::Ambiguous(sanitize::line(&series.subject, NAME)));
            }
            if let Some(label) = labels.get(&series.conditions) {
                series.conditions.clone_from(label);
            }
            match self.places.get(&identity) {
                Some(&place) => self.added[place].add(series, offset, before)?,
                None => {
                    self.places.insert(identity, self.added.len());
                    self.added.push(Added::new(series, offset, before)?);
                }
            }
        }
        add_new(&mut self.run.not_measured, next.not_measured);
        Ok(())
    }
}

/// Joins a series with its continuation in the same run: later rounds of the same cell.
///
/// # Errors
/// If a histogram is damaged, or the samples are too many to count.
pub fn continued(first: Series, next: Series) -> Result<Series, Error> {
    let mut added = Added::new(first, 0, 0)?;
    added.add(next, 0, 0)?;
    Ok(Series { parts: Vec::new(), ..added.finish() })
}

fn check(series: &Series) -> Result<(), Error> {
    match series.unit.as_str() {
        "ns" => Ok(()),
        unit => Err(Error::Unit { series: sanitize::line(&series.subject, NAME), unit: sanitize::line(unit, NAME) }),
    }
}

/// Adds the items that the list does not have.
fn add_new<T: PartialEq>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

// Merges the context of the figures: machine, conditions, clock, disturbance and notices.

/// Merges everything but series, conditions and missing subjects.
fn merge(run: &mut Run, next: &Run) {
    run.disturbance = disturbance(run, next);
    run.started = run.started.min(next.started);
    run.elapsed_ns = run.elapsed_ns.saturating_add(next.elapsed_ns);
    run.complete &= next.complete;
    run.host = common(&run.host, &next.host);
    // Every figure contains the cost of its clock: the largest cost is the safe one to report.
    run.clock.read_ns = run.clock.read_ns.max(next.clock.read_ns);
    run.clock.resolution_ns = run.clock.resolution_ns.max(next.clock.resolution_ns);
    run.clock.granularity_ns = run.clock.granularity_ns.max(next.clock.granularity_ns);
    add_new(&mut run.notices, next.notices.iter().cloned());
}

/// Facts that both machines share; others are absent.
fn common(one: &Host, other: &Host) -> Host {
    let (Ok(one_json), Ok(other_json)) = (serde_json::to_value(one), serde_json::to_value(other)) else {
        return Host::default();
    };
    serde_json::from_value(shared(one_json, other_json)).unwrap_or_default()
}

fn shared(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(mut other)) => {
            let both = one.into_iter().filter_map(|(name, value)| {
                let theirs = other.remove(&name)?;
                Some((name, shared(value, theirs)))
            });
            Value::Object(both.collect())
        }
        (Value::Array(one), Value::Array(other)) if one != other => Value::Array(Vec::new()),
        (one, other) if one == other => one,
        _ => Value::Null,
    }
}

/// Adds the condition sets of another run. Returns the new names of labels that have another meaning here.
fn conditions(sets: &mut Vec<ConditionSet>, next: &[ConditionSet]) -> BTreeMap<String, String> {
    let labels: Vec<String> = sets.iter().map(|set| set.label.clone()).collect();
    let places: BTreeMap<&str, usize> =
        labels.iter().enumerate().map(|(place, label)| (label.as_str(), place)).collect();
    let known: BTreeMap<String, usize> =
        keys_by_label(sets).into_iter().filter_map(|(label, key)| Some((key, *places.get(label)?))).collect();
    let keys = keys_by_label(next);
    let mut taken: BTreeSet<String> = labels.iter().cloned().collect();
    let mut renamed = BTreeMap::new();
    for set in next {
        let key = keys.get(set.label.as_str());
        let new = match key.and_then(|key| known.get(key)) {
            Some(&place) => {
                add_new(&mut sets[place].refused, set.refused.iter().cloned());
                sets[place].label.clone()
            }
            None => {
                let free = free_label(&taken, &set.label);
                taken.insert(free.clone());
                sets.push(ConditionSet { label: free.clone(), ..set.clone() });
                free
            }
        };
        if new != set.label {
            renamed.insert(set.label.clone(), new);
        }
    }
    renamed
}

/// The label, with a number if it is taken.
fn free_label(taken: &BTreeSet<String>, label: &str) -> String {
    let mut free = label.to_owned();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{label} #{number}");
        number += 1;
    }
    free
}

fn disturbance(run: &Run, next: &Run) -> Disturbance {
    let (one, other) = (&run.disturbance, &next.disturbance);
    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    let (t, u) = (run.elapsed_ns as f64, next.elapsed_ns as f64);
    let mean = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = a.zip(b)?;
        // Weighted first: the mean lies between the shares, however large those that a file claims.
        (t + u > 0.0).then(|| a * (t / (t + u)) + b * (u / (t + u)))
    };
    Disturbance {
        steal_ns: sum(one.steal_ns, other.steal_ns),
        steal_share: mean(one.steal_share, other.steal_share),
        involuntary_switches: sum(one.involuntary_switches, other.involuntary_switches),
        interrupts: sum(one.interrupts, other.interrupts),
        context_switches: sum(one.context_switches, other.context_switches),
        busy_share: mean(one.busy_share, other.busy_share),
        cpu_pressure_before: one.cpu_pressure_before.zip(other.cpu_pressure_before).map(|(a, b)| a.max(b)),
        major_faults: sum(one.major_faults, other.major_faults),
        // A process belongs to one machine and one run: `merged_from` has them.
        busiest: Vec::new(),
    }
}

/// Why a run cannot be merged with those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The run that began then is merged already.
    #[error("the run that began at {0} is there already: its samples would count twice; name each run once")]
    Twice(String),
    /// The runs have different clocks.
    #[error("its times were taken by {found}, those before it by {expected}; merge runs of one clock")]
    OtherClock {
        /// Its clock.
        found: String,
        /// The clock of the other runs.
        expected: String,
    },
    /// The runs share no series.
    #[error(
        "it shares no series with the runs before it (same experiment, subject, parameters and conditions as granted); \
         merge runs of the same command"
    )]
    NothingInCommon,
    /// The unit is not nanoseconds.
    #[error("the figures of series {series} are in {unit}, not in ns")]
    Unit {
        /// Subject of the series.
        series: String,
        /// Its unit.
        unit: String,
    },
    /// One run has the series of this subject twice.
    #[error("it has two series of {0} that differ in nothing but their figures; the file was altered")]
    Ambiguous(String),
    /// The figures are damaged.
    #[error(transparent)]
    Figures(#[from] distribution::Error),
    /// The samples of the series of this subject are too many to count.
    #[error("the samples of series {0} are more than can be counted; the file was altered")]
    TooMany(String),
    /// The merged figures of altered runs contradict each other: the first contradiction.
    #[error("the figures of these runs, added together, contradict each other: {0}; a file was altered or is damaged")]
    Contradictory(String),
}

/// A series so far.
#[derive(Debug, Clone)]
struct Added {
    /// Names, parameters, conditions; its figures are those of the first run until [`Added::finish`].
    series: Series,
    total: Distribution,
    sums: Sums,
    /// Samples of the runs so far.
    counted: u64,
}

/// A total is known only if every run knows its part.
#[derive(Debug, Clone, Copy)]
struct Sums {
    cpu_ns: Option<f64>,
    elapsed_ns: Option<f64>,
    voluntary: Option<f64>,
    involuntary: Option<f64>,
}

impl Sums {
    fn known(series: &Series) -> Self {
        let times = |figure: Option<f64>| Some(figure? * series.summary.count as f64);
        let cpu_ns = times(series.cpu_ns_per_op);
        // The record contains the share of CPU time, not the elapsed time behind it.
        let elapsed_ns = cpu_ns.zip(series.cpu_share).and_then(|(ns, share)| (share > 0.0).then_some(ns / share));
        Self {
            cpu_ns,
            elapsed_ns,
            voluntary: times(series.voluntary_switches_per_op),
            involuntary: times(series.involuntary_switches_per_op),
        }
    }

    fn plus(self, other: Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Self {
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
            elapsed_ns: both(self.elapsed_ns, other.elapsed_ns),
            voluntary: both(self.voluntary, other.voluntary),
            involuntary: both(self.involuntary, other.involuntary),
        }
    }
}

impl Added {
    fn new(mut series: Series, offset: u32, before: u64) -> Result<Self, Error> {
        let total = Distribution::from_series(&series)?;
        let sums = Sums::known(&series);
        series.parts = parts(&series, offset);
        let rounds = std::mem::take(&mut series.rounds);
        let counted = series.summary.count;
        let mut added = Self { series, total, sums, counted };
        added.append(rounds, before);
        Ok(added)
    }

    fn add(&mut self, next: Series, offset: u32, before: u64) -> Result<(), Error> {
        let distribution = Distribution::from_series(&next)?;
        if self.total.count().checked_add(distribution.count()).is_none() {
            return Err(Error::TooMany(sanitize::line(&next.subject, NAME)));
        }
        self.total.merge(&distribution);
        self.sums = self.sums.plus(Sums::known(&next));
        let new = parts(&next, offset);
        self.series.parts.extend(new);
        self.series.samples = match (self.series.samples.take(), next.samples) {
            (Some(mut samples), Some(more)) => {
                samples.extend(more);
                Some(samples)
            }
            _ => None,
        };
        self.series.experiment.merge(&next.experiment, (self.counted, next.summary.count));
        self.counted = self.counted.saturating_add(next.summary.count);
        self.append(next.rounds, before);
        Ok(())
    }

    /// Rounds continue where the previous run ended.
    fn append(&mut self, rounds: Vec<RoundFigures>, before: u64) {
        for mut round in rounds {
            round.round = self.series.rounds.len() as u32;
            round.started_ns = round.started_ns.saturating_add(before);
            self.series.rounds.push(round);
        }
    }

    fn finish(self) -> Series {
        let Self { mut series, total, sums, .. } = self;
        let count = total.count();
        let per_op = |sum: Option<f64>| sum.filter(|_| count > 0).map(|sum| sum / count as f64);
        series.summary = total.summary();
        (series.histogram, series.negative_histogram) = total.to_histograms();
        series.cpu_ns_per_op = per_op(sums.cpu_ns);
        series.voluntary_switches_per_op = per_op(sums.voluntary);
        series.involuntary_switches_per_op = per_op(sums.involuntary);
        let elapsed = sums.elapsed_ns.filter(|&ns| ns > 0.0);
        series.cpu_share = sums.cpu_ns.zip(elapsed).map(|(cpu, elapsed)| cpu / elapsed);
        series
    }
}

/// The contributions of the runs behind a series: the series itself, or its parts.
fn parts(series: &Series, offset: u32) -> Vec<Part> {
    if !series.parts.is_empty() {
        let moved = |part: &Part| Part { source: part.source.saturating_add(offset), ..part.clone() };
        return series.parts.iter().map(moved).collect();
    }
    vec![Part {
        source: offset,
        rounds: series.rounds.len() as u32,
        summary: series.summary.clone(),
        cpu_ns_per_op: series.cpu_ns_per_op,
    }]
}
