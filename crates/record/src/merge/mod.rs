//! Runs of one kind added together: repeated runs of one machine, or the same run on many.
//!
//! In go runs, one after the other, through a [`Merger`]; out comes a [`Run`] whose histograms hold the samples of all of them, whose
//! rounds follow each other, and which still tells what each run contributed ([`Series::parts`](crate::Series::parts),
//! [`Run::merged_from`]). Merging what is merged already gives what merging all at once would have given.
//!
//! Refused are the same run given twice, runs that took the time by different clocks, runs that share no series, and series whose
//! figures contradict their histograms: adding those up would invent samples.

mod around;
mod figures;

use std::collections::{BTreeMap, BTreeSet};

use crate::contradiction;
use crate::distribution;
use crate::identity::{Identity, identities};
use crate::model::{NotMeasured, Run, SCHEMA, Series, Source, Tool};
use crate::plain::{self, NAME};
use figures::Added;

/// Why a run cannot be merged with those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is among them already.
    #[error("the run that began at {started} is there already: its samples would count twice; name each run once")]
    Twice {
        /// When it began.
        started: String,
    },
    /// Another clock.
    #[error("its times were taken by {found}, those before it by {expected}; merge runs of one clock")]
    OtherClock {
        /// Its clock.
        found: String,
        /// That of the others.
        expected: String,
    },
    /// Nothing in common.
    #[error(
        "it shares no series with the runs before it (same experiment, subject, parameters and conditions as granted); \
         merge runs of the same command"
    )]
    NothingInCommon,
    /// Another unit than nanoseconds.
    #[error("the figures of series {series} are in {unit}, not in ns")]
    Unit {
        /// Subject of the series.
        series: String,
        /// Its unit.
        unit: String,
    },
    /// The same series twice in one run.
    #[error("it has two series of {series} that differ in nothing but their figures; the file was altered")]
    Ambiguous {
        /// Subject of the series.
        series: String,
    },
    /// Damaged figures.
    #[error(transparent)]
    Figures(#[from] distribution::Error),
    /// More samples than can be counted.
    #[error("the samples of series {series} are more than can be counted; the file was altered")]
    TooMany {
        /// Subject of the series.
        series: String,
    },
    /// Figures of altered runs that contradict each other once they are added.
    #[error(
        "the figures of these runs, added together, contradict each other: {why}; a file was altered or is damaged"
    )]
    Contradictory {
        /// The first contradiction.
        why: String,
    },
}

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
        let frame = Run { series: Vec::new(), merged_from: Vec::new(), not_measured: Vec::new(), ..first.clone() };
        let mut merger = Self { run: frame, added: Vec::new(), places: BTreeMap::new() };
        merger.take(first, 0)?;
        Ok(merger)
    }

    /// Adds another run. After an error the merger is not to be used any more.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn add(&mut self, next: Run) -> Result<(), Error> {
        let clock = &self.run.clock.source;
        if next.clock.source != *clock {
            return Err(Error::OtherClock {
                found: plain::line(&next.clock.source, NAME),
                expected: plain::line(clock, NAME),
            });
        }
        if !identities(&next).iter().any(|identity| self.places.contains_key(identity)) {
            return Err(Error::NothingInCommon);
        }
        let before = self.run.elapsed_ns;
        around::merge(&mut self.run, &next);
        self.take(next, before)
    }

    /// All runs together, as a run made by this program and this command line.
    ///
    /// # Errors
    /// When the figures of altered runs contradict each other once they are added.
    pub fn finish(self, tool: Tool, command: Vec<String>) -> Result<Run, Error> {
        let Self { mut run, added, .. } = self;
        let mut series = Vec::with_capacity(added.len());
        let mut measured = BTreeSet::new();
        for one in added {
            let finished = one.finish();
            measured.insert((finished.experiment.clone(), finished.subject.clone()));
            series.push(finished);
        }
        // What one run could not measure and another could has figures: it is not missing.
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

    /// Takes in the series of a run whose surroundings are merged already; its rounds begin `before` ns after those of the first.
    fn take(&mut self, next: Run, before: u64) -> Result<(), Error> {
        let offset = self.run.merged_from.len() as u32;
        for source in sources(&next) {
            if self.run.merged_from.contains(&source) {
                return Err(Error::Twice { started: source.started.to_string() });
            }
            self.run.merged_from.push(source);
        }
        let labels = around::conditions(&mut self.run.conditions, &next.conditions);
        let identities = identities(&next);
        let mut seen = BTreeSet::new();
        for (mut series, identity) in next.series.into_iter().zip(identities) {
            check(&series)?;
            if !seen.insert(identity.clone()) {
                return Err(Error::Ambiguous { series: plain::line(&series.subject, NAME) });
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

/// The runs that a run consists of: itself, or what was merged into it.
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
        unit => Err(Error::Unit { series: plain::line(&series.subject, NAME), unit: plain::line(unit, NAME) }),
    }
}

fn push_new(list: &mut Vec<NotMeasured>, item: NotMeasured) {
    if !list.contains(&item) {
        list.push(item);
    }
}
