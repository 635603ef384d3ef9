//! The verdict on limits in words, for standard error.

use punctual_record::{Run, Series};

use crate::document::{Level, Phrase};
use crate::format::prose::unbroken;
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, parameter, under};

use super::{Key, Verdict};

/// What is said of each figure beyond its limit, then of each that cannot be judged.
#[must_use]
pub fn phrases(verdict: &Verdict, run: &Run) -> Vec<Phrase> {
    let exceeded = verdict.exceeded.iter().map(|its| {
        let state = format!("is {}", units::duration_fine(its.value_ns));
        Phrase::new(Level::Exceeded, line(run, its.series, its.key, &state, its.limit_ns))
    });
    let unjudged = verdict.unjudged.iter().map(|its| {
        let state = format!("cannot be judged from {} samples", units::count(its.count));
        let text = line(run, its.series, its.key, &state, its.limit_ns);
        Phrase::new(Level::Unjudged, text).remedy("take more --samples")
    });
    exceeded.chain(unjudged).collect()
}

fn line(run: &Run, series: usize, key: Key, state: &str, limit_ns: i64) -> String {
    let name = run.series.get(series).map_or(String::new(), |series| name(run, series));
    format!("{key} of {name} {}, limit {}.", state, unbroken(&units::exact(limit_ns)))
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
