//! What the library achieves here, in one line.

use punctual_record::{Run, Series};

use crate::story::{Block, Section, unbroken};
use crate::style::Style;
use crate::units;
use crate::words;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "on_time", sections, advice: |_, _, _| Advice::default() };

fn sections(_: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let parts: Vec<String> = series.iter().filter_map(|series| part(series, style)).collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let text = format!("The library's sleeper (hybrid) is late by {}.", parts.join("; by "));
    vec![Section::new("on time").with(Block::Paragraph(text))]
}

/// How late one wait is and what it costs.
fn part(series: &Series, style: &Style) -> Option<String> {
    let asked = unbroken(&units::exact(words::int(series, "asked_ns")?, style));
    let p50 = unbroken(&units::duration(series.summary.p50?, style));
    let p99 = series.summary.p99.map(|ns| format!(" ({} at p99)", unbroken(&units::duration(ns, style))));
    let cpu = series.cpu_share.map(|share| format!(" at {} of a CPU", unbroken(&units::share(share))));
    Some(format!("{p50}{} for {asked}{}", p99.unwrap_or_default(), cpu.unwrap_or_default()))
}
