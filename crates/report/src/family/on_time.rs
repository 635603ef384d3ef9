//! The result of the library's sleeper in one line, beside the sleeping call that it replaces. It is for runs of earlier
//! versions.

use punctual_record::{Run, Series};

use crate::document::{Block, Section};
use crate::format::spoken;

use super::shared::Family;
use super::wait::candidates;

pub(super) const FAMILY: Family = Family { candidates: candidates::candidates, ..Family::of("on_time", sections) };

/// The library's sleeper.
const SLEEPER: &str = "hybrid";
/// The call that it is measured beside.
const CALL: &str = "clock_nanosleep_abs";

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let said = |subject: &str| {
        let parts: Vec<String> =
            series.iter().filter(|series| series.subject == subject).filter_map(|series| part(series)).collect();
        (!parts.is_empty()).then(|| parts.join("; by "))
    };
    let Some(ours) = said(SLEEPER) else { return Vec::new() };
    let mut text = format!("The library's sleeper ({SLEEPER}) is late by {ours}.");
    if let Some(theirs) = said(CALL) {
        text.push_str(&format!(" Interleaved with it, {CALL} by {theirs}."));
    }
    vec![Section::new("on time").with(Block::Paragraph(text))]
}

/// How late one wait is and what it costs.
fn part(series: &Series) -> Option<String> {
    let asked = spoken::exact(series.experiment.any_wait()?.parameters.asked_ns);
    let p50 = spoken::duration(series.summary.p50?);
    let p99 = series.summary.p99.map(|ns| format!(" ({} at p99)", spoken::duration(ns)));
    let cpu = series.cpu_share.map(|share| format!(" at {} of a CPU", spoken::share(share)));
    Some(format!("{p50}{} for {asked}{}", p99.unwrap_or_default(), cpu.unwrap_or_default()))
}
