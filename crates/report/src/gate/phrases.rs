//! The verdict on limits in words, figure by figure.

use punctual_record::{Key, Limit, Quantile, Run, Series};

use crate::document::{Level, Phrase};
use crate::format::{sanitize, spoken, unbroken, units};
use crate::naming::{conditions, parameter, under};

use super::{Judgement, Unjudged};

/// What is said of each figure beyond its limit, then of each that cannot be judged.
#[must_use]
pub fn phrases(judgement: &Judgement, run: &Run) -> Vec<Phrase> {
    let exceeded = judgement.exceeded.iter().map(|its| {
        let state = format!("is {}", units::duration_fine(its.value_ns));
        Phrase::new(Level::Exceeded, line(run, its.series, its.key, &state, its.limit_ns))
    });
    exceeded.chain(judgement.unjudged.iter().filter_map(|its| unjudged(its, run))).collect()
}

fn unjudged(its: &Unjudged, run: &Run) -> Option<Phrase> {
    let Limit { figure, above_ns, .. } = run.limits.get(its.limit)?;
    let Some(series) = its.series else {
        let limit = sanitize(&run.limits[its.limit].to_string());
        return Some(Phrase::new(Level::Unjudged, format!("nothing was measured that the limit {limit} is about.")));
    };
    let count = run.series.get(series)?.summary.count;
    let state = format!("cannot be judged from {} samples", units::count(count));
    let text = line(run, series, *figure, &state, *above_ns);
    let needed = format!("take {} samples", units::count(needed(*figure)));
    Some(Phrase::new(Level::Unjudged, text).remedy(&needed))
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

fn line(run: &Run, series: usize, key: Key, state: &str, limit_ns: i64) -> String {
    let name = run.series.get(series).map_or(String::new(), |series| name(run, series));
    format!("{} of {name} {state}, limit {}.", key.name(), spoken::exact(limit_ns))
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
