//! What the library achieves here, in one line, and what it gains over the sleeping call that it takes the place of.

use punctual_record::{Run, Series};

use crate::story::{Block, Item, Section, unbroken};
use crate::style::Style;
use crate::units;
use crate::words::{self, Figures};

use super::wait::by_asked;
use super::{Advice, Family};

/// Name of the part in the record.
pub(super) const EXPERIMENT: &str = "on_time";
pub(super) const FAMILY: Family = Family { experiment: EXPERIMENT, sections, advice };

/// The library's sleeper.
const SLEEPER: &str = "hybrid";
/// The call that it is measured beside.
const CALL: &str = "clock_nanosleep_abs";

fn sections(_: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let said = |subject: &str| {
        let parts: Vec<String> =
            series.iter().filter(|series| series.subject == subject).filter_map(|series| part(series, style)).collect();
        (!parts.is_empty()).then(|| parts.join("; by "))
    };
    let Some(ours) = said(SLEEPER) else { return Vec::new() };
    let mut text = format!("The library's sleeper ({SLEEPER}) is late by {ours}.");
    if let Some(theirs) = said(CALL) {
        text.push_str(&format!(" In turns with it, {CALL} by {theirs}."));
    }
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

/// The gain for the duration for which it is largest, with its price.
fn advice(run: &Run, series: &[&Series], style: &Style) -> Advice {
    let mut advice = Advice::default();
    let mut alike = true;
    let mut best: Option<(i64, Item)> = None;
    for (asked, series) in by_asked(series) {
        let Some(asked) = asked else { continue };
        let figures = Figures::of(run, asked, &series, style);
        let row = |subject: &str| figures.rows.iter().find(|row| row.subject == subject);
        let (Some(call), Some(ours)) = (row(CALL), row(SLEEPER)) else { continue };
        let (Some(before), Some(after)) = (call.p50, ours.p50) else { continue };
        let Some(gain) = before.exceeds(&after) else { continue };
        alike = false;
        if best.as_ref().is_some_and(|(known, _)| *known >= gain.value) {
            continue;
        }
        let duration = |ns: i64| unbroken(&units::duration(ns, style));
        let at_p99 = match (call.p99, ours.p99) {
            (Some(before), Some(after)) => match (before.exceeds(&after), after.exceeds(&before)) {
                (Some(gain), _) => format!(", {} at p99", duration(gain.value)),
                (_, Some(loss)) => format!(", but {} later at p99", duration(loss.value)),
                _ => ", no difference shown at p99".to_owned(),
            },
            _ => String::new(),
        };
        let price = call.cpu_share.zip(ours.cpu_share).map(|(call, ours)| {
            let [call, ours] = [call, ours].map(|share| unbroken(&units::share(share)));
            format!(" It takes {ours} of a CPU instead of {call}.")
        });
        let text = format!(
            "{} earlier at p50 ({}){at_p99}: sleeping for most of the wait and spinning for the rest ({SLEEPER} instead of {CALL}, \
             {}).{} In Rust, with this tool's library:",
            duration(gain.value),
            units::instead(after.value, before.value, style),
            unbroken(&units::exact(asked, style)),
            price.unwrap_or_default(),
        );
        let code = "let mut sleeper = punctual::Sleeper::new();\nsleeper.sleep_until(deadline);".to_owned();
        best = Some((gain.value, Item { text, code: Some(code) }));
    }
    match best {
        Some(item) => advice.trades.push(item),
        None if alike && series.iter().any(|series| series.subject == CALL) => {
            advice.no_difference.push(format!("{SLEEPER} instead of {CALL}"));
        }
        None => {}
    }
    advice
}
