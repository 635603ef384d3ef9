//! The switch: duration of writing a governor, and delay until the new speed is reached.

use punctual_record::experiment::switch::{Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, under};

use super::shared::{ALWAYS, Family, Measured, measured, no_answer, no_candidates};

type Switch<'a> = Measured<'a, Parameters, Metrics>;

pub(super) const FAMILY: Family =
    Family { experiment: "switch", sections, candidates: no_candidates, answer: no_answer };

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::switch);
    let Some(first) = series.first() else { return Vec::new() };
    let on = |cpu: Option<u32>| cpu.map_or_else(|| units::ABSENT.to_owned(), |cpu| cpu.to_string());
    let heading = format!(
        "switch: governor of CPU {} written from CPU {}, {}",
        on(first.metrics.cpu),
        on(first.metrics.switched_from_cpu),
        under(&conditions(run, &first.conditions))
    );
    let table = Columns::new()
        .left("switch", ALWAYS, |series: &Switch<'_>| sanitize(&series.subject))
        .left("figure", ALWAYS, |series| what(series.quantity).to_owned())
        .count("n", 40, |series| Some(series.summary.count))
        .ns("min", 30, |series| series.summary.min)
        .estimate("p50", (ALWAYS, 50), |series| (series.summary.p50, series.summary.ci95.p50))
        .ns("p90", 60, |series| series.summary.p90)
        .ns("max", ALWAYS, |series| series.summary.max)
        .right("loop before, after", 70, |Measured { metrics, .. }| {
            format!("{}, {}", units::known(metrics.before_ns), units::known(metrics.after_ns))
        })
        .of(&series);
    let legend = Block::Legend(vec![
        Note::always("write: the write to scaling_governor."),
        Note::always(
            "new speed: from the beginning of the write to the first loop that takes as long as loops do afterwards, to 5 %.",
        ),
    ]);
    vec![Section::new(heading).with(Block::Table(table)).with(legend)]
}

/// What a series is of.
fn what(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::CallCost => "write",
        Quantity::Settling => "new speed",
        _ => "",
    }
}
