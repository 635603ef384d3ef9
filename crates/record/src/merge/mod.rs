//! Merges runs of one kind: repeated runs of one machine, or the same run on several machines.
//!
//! Takes runs one by one through a [`Merger`] and returns a [`Run`]. Its histograms hold the samples of all runs and
//! its rounds follow each other. It still lists the contribution of each run ([`Series::parts`](crate::Series::parts),
//! [`Run::merged_from`]). Merging is associative: merging merged runs gives the same result as merging all at once.
//!
//! Refused: the same run given twice, runs timed by different clocks, and runs without a common series. Also series whose
//! figures contradict their histograms: adding those would invent samples. Causes are not merged: their percentiles cannot
//! be added, and the runs may have watched different threads. A notice says so.

mod context;
mod figures;

use std::collections::{BTreeMap, BTreeSet};

use crate::contradiction;
use crate::identity::{Identity, identities};
use crate::model::{NotMeasured, Notice, Run, SCHEMA, Series, Source, Tool};
use crate::sanitize::{self, NAME};
use figures::Added;
pub use figures::Error;

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
        context::merge(&mut self.run, &next);
        self.take(next, before)
    }

    /// The merged run, as a run of this program and this command line.
    ///
    /// # Errors
    /// If the merged figures of altered runs contradict each other.
    pub fn finish(self, tool: Tool, command: Vec<String>) -> Result<Run, Error> {
        let Self { mut run, added, .. } = self;
        let mut series = Vec::with_capacity(added.len());
        let mut measured = BTreeSet::new();
        for one in added {
            let finished = one.finish();
            measured.insert((finished.experiment.name().to_owned(), finished.subject.clone()));
            series.push(finished);
        }
        // A subject that only one run could not measure has figures, so it is not missing.
        run.not_measured.retain(|missing| {
            !measured.contains(&(missing.experiment.clone(), missing.subject.clone()))
                || missing.conditions.is_some()
                || !missing.parameters.is_empty()
        });
        run.schema = SCHEMA.into();
        run.series = series;
        run.tool = tool;
        run.command = command;
        match contradiction::find(&run) {
            Some(why) => Err(Error::Contradictory { why }),
            None => Ok(run),
        }
    }

    /// Adds the series of a run whose context is merged already. Its rounds begin `before` ns after those of the first
    /// run.
    fn take(&mut self, next: Run, before: u64) -> Result<(), Error> {
        if next.causes.is_some() && !self.run.notices.contains(&Notice::CausesNotMerged) {
            self.run.notices.push(Notice::CausesNotMerged);
        }
        let offset = self.run.merged_from.len() as u32;
        for source in sources(&next) {
            if self.run.merged_from.contains(&source) {
                return Err(Error::Twice { started: source.started.to_string() });
            }
            self.run.merged_from.push(source);
        }
        let labels = context::conditions(&mut self.run.conditions, &next.conditions);
        let identities = identities(&next);
        let mut seen = BTreeSet::new();
        for (mut series, identity) in next.series.into_iter().zip(identities) {
            check(&series)?;
            if !seen.insert(identity.clone()) {
                return Err(Error::Ambiguous { series: sanitize::line(&series.subject, NAME) });
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
        for missing in next.not_measured {
            push_new(&mut self.run.not_measured, missing);
        }
        Ok(())
    }
}

/// The runs inside a run: itself, or the runs merged into it.
fn sources(run: &Run) -> Vec<Source> {
    if !run.merged_from.is_empty() {
        return run.merged_from.clone();
    }
    vec![Source {
        tool: run.tool.clone(),
        started: run.started,
        elapsed_ns: run.elapsed_ns,
        complete: run.complete,
        command: run.command.clone(),
        host: run.host.clone(),
        clock: run.clock.clone(),
        disturbance: run.disturbance.clone(),
    }]
}

fn check(series: &Series) -> Result<(), Error> {
    match series.unit.as_str() {
        "ns" => Ok(()),
        unit => Err(Error::Unit { series: sanitize::line(&series.subject, NAME), unit: sanitize::line(unit, NAME) }),
    }
}

fn push_new(list: &mut Vec<NotMeasured>, item: NotMeasured) {
    if !list.contains(&item) {
        list.push(item);
    }
}
