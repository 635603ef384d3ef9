//! The verdict on limits in words, figure by figure.

use punctual_record::{Key, Quantile, Run, Series};

use crate::document::{Level, Phrase};
use crate::format::{sanitize, spoken, unbroken, units};
use crate::naming::{conditions, parameter, under};

use super::{Finding, Judgement};

/// What is said of each figure beyond its limit, then of each that cannot be judged.
#[must_use]
pub fn phrases(judgement: &Judgement<Finding>, run: &Run) -> Vec<Phrase> {
    judgement.failed.iter().chain(&judgement.unjudged).filter_map(|its| phrase(its, run)).collect()
}

fn phrase(its: &Finding, run: &Run) -> Option<Phrase> {
    let limit = run.limits.get(its.limit)?;
    let Some(series) = its.series else {
        let limit = sanitize(&limit.to_string());
        return Some(Phrase::new(Level::Unjudged, format!("nothing was measured that the limit {limit} is about.")));
    };
    let series = run.series.get(series)?;
    let line = |state: &str| {
        let (figure, above) = (limit.figure.name(), spoken::exact(limit.above_ns));
        format!("{figure} of {} {state}, limit {above}.", name(run, series))
    };
    Some(match its.value_ns {
        Some(ns) => Phrase::new(Level::Exceeded, line(&format!("is {}", units::duration_fine(ns)))),
        None => {
            let text = line(&format!("cannot be judged from {} samples", units::count(series.summary.count)));
            Phrase::new(Level::Unjudged, text).remedy(&format!("take {} samples", units::count(needed(limit.figure))))
        }
    })
}

/// The fewest samples that support a figure.
fn needed(key: Key) -> u64 {
    let quantile = match key {
        Key::P50 => Quantile::P50,
        Key::P90 => Quantile::P90,
        Key::P99 => Quantile::P99,
        Key::P999 => Quantile::P999,
        Key::Min | Key::Max | Key::Mean => return 1,
    };
    let (mut few, mut enough) = (0, 1_u64 << 32);
    while enough - few > 1 {
        let middle = u64::midpoint(few, enough);
        if quantile.is_supported_by(middle) { enough = middle } else { few = middle }
    }
    enough
}

/// Which series: `nanosleep under fifo:40 (asked 100 µs)`.
fn name(run: &Run, series: &Series) -> String {
    let mut text = sanitize(&series.subject);
    if !series.conditions.is_empty() {
        text.push_str(&format!(" {}", under(&conditions(run, &series.conditions))));
    }
    let shown: Vec<String> =
        series.experiment.parameters().iter().map(|(name, value)| unbroken(&parameter(name, value))).collect();
    if shown.is_empty() { text } else { format!("{text} ({})", shown.join(", ")) }
}
