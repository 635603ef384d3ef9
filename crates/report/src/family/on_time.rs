//! The result of the library's sleeper in one line, and its gain over the sleeping call that it replaces.

use punctual_record::{Run, Series};

use crate::document::{Block, Item, Section};
use crate::format::prose::unbroken;
use crate::format::units;
use crate::words::{self, Figures};

use super::shared::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "on_time", sections, advice };

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
    let asked = unbroken(&units::exact(series.experiment.any_wait()?.parameters.asked_ns));
    let p50 = unbroken(&units::duration(series.summary.p50?));
    let p99 = series.summary.p99.map(|ns| format!(" ({} at p99)", unbroken(&units::duration(ns))));
    let cpu = series.cpu_share.map(|share| format!(" at {} of a CPU", unbroken(&units::share(share))));
    Some(format!("{p50}{} for {asked}{}", p99.unwrap_or_default(), cpu.unwrap_or_default()))
}

/// The gain for the duration for which it is largest, with its price.
fn advice(run: &Run, series: &[&Series]) -> Advice {
    let mut advice = Advice::default();
    let gains = words::by_asked(series).into_iter().filter_map(|(asked, series)| gain(run, asked, &series));
    match gains.max_by_key(|(gain, _)| *gain) {
        Some(item) => advice.trades.push(item),
        None if series.iter().any(|series| series.subject == CALL) => {
            advice.no_difference.push(format!("{SLEEPER} instead of {CALL}"));
        }
        None => {}
    }
    advice
}

fn gain(run: &Run, asked: i64, series: &[&Series]) -> Option<(i64, Item)> {
    let figures = Figures::of(run, asked, series);
    let row = |subject: &str| figures.rows.iter().find(|row| row.subject == subject);
    let (call, ours) = (row(CALL)?, row(SLEEPER)?);
    let (gain, effect) = ours.earlier_than(call)?;
    let price = call.cpu_share.zip(ours.cpu_share).map(|(call, ours)| {
        let [call, ours] = [call, ours].map(|share| unbroken(&units::share(share)));
        format!(" It takes {ours} of a CPU instead of {call}.")
    });
    let text = format!(
        "{effect}: sleeping for most of the wait and spinning for the rest ({SLEEPER} instead of {CALL}, {}).{} In Rust, with this \
         tool's library:",
        unbroken(&units::exact(asked)),
        price.unwrap_or_default(),
    );
    Some((gain, Item { text, code: ours.code.clone() }))
}
