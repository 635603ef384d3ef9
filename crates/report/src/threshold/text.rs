//! The verdict on limits in words, for standard error.

use punctual_record::{Run, Series};

use crate::background::{conditions, parameter};
use crate::plain::plain;
use crate::story::{paragraph, unbroken};
use crate::style::{Paint, Style};
use crate::units;

use super::{Key, Verdict};

/// One line per figure beyond its limit, then one per figure that cannot be judged; empty when there is neither.
#[must_use]
pub fn render(verdict: &Verdict, run: &Run, style: &Style) -> String {
    let mut out = String::new();
    for exceeded in &verdict.exceeded {
        let value = units::duration_fine(exceeded.value_ns, style);
        let text = line(run, exceeded.series, exceeded.key, &format!("is {value}"), exceeded.limit_ns, style);
        out.push_str(&paragraph(&format!("exceeded: {text}."), "", "  ", Paint::Failure, style));
    }
    for unjudged in &verdict.unjudged {
        let state = format!("cannot be judged from {} samples", units::count(unjudged.count));
        let text = line(run, unjudged.series, unjudged.key, &state, unjudged.limit_ns, style);
        out.push_str(&paragraph(
            &format!("unjudged: {text}. Remedy: take more --samples."),
            "",
            "  ",
            Paint::Warning,
            style,
        ));
    }
    out
}

fn line(run: &Run, series: usize, key: Key, state: &str, limit_ns: i64, style: &Style) -> String {
    let name = run.series.get(series).map_or(String::new(), |series| name(run, series, style));
    format!("{key} of {name} {}, limit {}", state, unbroken(&units::exact(limit_ns, style)))
}

/// Which series: `nanosleep under fifo:40 (asked 100 µs)`.
fn name(run: &Run, series: &Series, style: &Style) -> String {
    let mut text = plain(&series.subject, style);
    if !series.conditions.is_empty() {
        text.push_str(&format!(" under {}", conditions(run, &series.conditions, style)));
    }
    let shown: Vec<String> = series
        .parameters
        .iter()
        .filter(|(name, _)| *name != "effective_ns")
        .map(|(name, value)| unbroken(&parameter(name, value, style)))
        .collect();
    if shown.is_empty() { text } else { format!("{text} ({})", shown.join(", ")) }
}
