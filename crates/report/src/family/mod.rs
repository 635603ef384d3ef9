//! The families of experiments, as equals: each turns its series into sections, its figures into sentences and its
//! findings into advice. Adding a family is adding one file and one line to [`FAMILIES`].

mod any;
mod boost;
mod calibrate;
mod code;
mod ipc;
mod on_time;
mod pace;
mod polls;
pub(crate) mod ramp;
mod switch;
mod wait;
mod yielding;

use punctual_record::{Run, Series};

use crate::story::{Item, Section};
use crate::style::Style;

/// One family of experiments.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name in `Series::experiment`.
    pub experiment: &'static str,
    /// Its tables and words.
    pub sections: fn(&Run, &[&Series], &Style) -> Vec<Section>,
    /// What the check-up recommends.
    pub advice: fn(&Run, &[&Series], &Style) -> Advice,
}

/// What to do, as far as it was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Advice {
    /// What was shown to help, with the gain at p50 in ns by which items are ordered.
    pub helps: Vec<(i64, Item)>,
    /// The same for what buys its gain with CPU time or takes another design: of similar gains these come last.
    pub trades: Vec<(i64, Item)>,
    /// What helped in some cases and made it worse in others, with the figures.
    pub mixed: Vec<String>,
    /// What was measured and made it worse, with the figures.
    pub worse: Vec<String>,
    /// What was measured and showed no difference.
    pub no_difference: Vec<String>,
}

/// The families that have their own words.
pub const FAMILIES: &[Family] = &[
    wait::FAMILY,
    on_time::FAMILY,
    calibrate::FAMILY,
    pace::FAMILY,
    yielding::FAMILY,
    polls::FAMILY,
    ramp::FAMILY,
    switch::FAMILY,
    boost::FAMILY,
    ipc::FAMILY,
];

/// The family of an experiment; one that has no words of its own gets plain tables.
#[must_use]
pub fn of(experiment: &str) -> Family {
    FAMILIES.iter().copied().find(|family| family.experiment == experiment).unwrap_or(any::FAMILY)
}

/// The experiments of a run in the order of their first series, each with its series.
#[must_use]
pub fn experiments(run: &Run) -> Vec<(&str, Vec<&Series>)> {
    let mut experiments: Vec<(&str, Vec<&Series>)> = Vec::new();
    for series in &run.series {
        match experiments.iter_mut().find(|(name, _)| *name == series.experiment) {
            Some((_, list)) => list.push(series),
            None => experiments.push((&series.experiment, vec![series])),
        }
    }
    experiments
}
