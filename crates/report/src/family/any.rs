//! Fallback for experiments without their own text: all figures in a plain table, without conclusions.

use punctual_record::{Run, Series};

use crate::document::{Block, Columns, Section};
use crate::format::sanitize;
use crate::naming::{conditions, parameter};

use super::shared::{ALWAYS, Family};

pub(super) const FAMILY: Family = Family::of("", sections);

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let parameters = |series: &&Series| {
        let parameters = series.experiment.parameters();
        parameters.iter().map(|(name, value)| parameter(name, value)).collect::<Vec<_>>().join(", ")
    };
    let table = Columns::new()
        .left("subject", ALWAYS, |series: &&Series| sanitize(&series.subject))
        .left("parameters", 90, parameters)
        .left("conditions", 80, |series| conditions(run, &series.conditions))
        .left("quantity", 70, |series| series.quantity.name().replace('_', " "))
        .count("n", 10, |series| Some(series.summary.count))
        .ns("min", 20, |series| series.summary.min)
        .ns("p50", ALWAYS, |series| series.summary.p50)
        .ns("p99", ALWAYS, |series| series.summary.p99)
        .ns("max", 60, |series| series.summary.max)
        .of(series);
    vec![Section::new(sanitize(first.experiment.name())).with(Block::Table(table))]
}
