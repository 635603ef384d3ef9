//! The families of experiments, as equals. Each turns its series into sections, its figures into sentences and its
//! findings into advice. Adding a family is adding one file and one line to [`FAMILIES`].

mod boost;
mod calibrate;
mod calls;
mod cyclic;
pub(crate) mod figures;
pub mod frequency;
mod ipc;
mod pace;
mod polls;
pub(crate) mod ramp;
mod shared;
mod sweep;
mod switch;
pub(crate) mod wait;
mod yielding;

use punctual_record::{Run, Series};

use crate::format::grouped;

use shared::Family;

/// The families that have their own words.
const FAMILIES: &[Family] = &[
    wait::FAMILY,
    wait::ON_TIME,
    calibrate::FAMILY,
    pace::FAMILY,
    sweep::FAMILY,
    yielding::FAMILY,
    polls::FAMILY,
    ramp::FAMILY,
    switch::FAMILY,
    boost::FAMILY,
    ipc::FAMILY,
    cyclic::FAMILY,
    calls::FAMILY,
];

/// The family of an experiment; one that has no words of its own gets plain tables.
pub(crate) fn named(experiment: &str) -> Family {
    FAMILIES.iter().copied().find(|family| family.experiment == experiment).unwrap_or(shared::ANY)
}

/// The experiments of a run in the order of their first series, each with its series.
pub(crate) fn experiments(run: &Run) -> Vec<(&str, Vec<&Series>)> {
    let series: Vec<&Series> = run.series.iter().collect();
    grouped(&series, |series| series.experiment.name())
}
