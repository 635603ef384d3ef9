//! What the waiting part of a check-up recommends: each change that this run measured, with its gain at p50, the price
//! where there is one, and the line to write. A change without a shown gain is named as making no
//! difference here, or as making it worse.

use punctual_record::{Quantity, Run, Series};

use crate::story::{Item, unbroken};
use crate::style::Style;
use crate::units;
use crate::words::{self, Difference, Figure, Figures, Lever};

use super::super::Advice;
use super::super::code::line;
use super::super::on_time;
use super::by_asked;
use super::remedy::{Remedy, remedy};

/// One change: what it is called when it makes no difference, the item when it helps, and where it is worse.
struct Finding {
    name: String,
    helps: Option<(i64, Item)>,
    worse: Vec<String>,
    /// Whether it buys its gain with CPU time.
    trade: bool,
}

impl Finding {
    fn new(name: String, helps: Option<(i64, Item)>) -> Self {
        Self { name, helps, worse: Vec::new(), trade: false }
    }

    /// The same change for another duration: the larger gain stays, all losses do.
    fn takes_in(&mut self, other: Self) {
        let gain = |helps: &Option<(i64, Item)>| helps.as_ref().map_or(i64::MIN, |(gain, _)| *gain);
        if gain(&other.helps) > gain(&self.helps) {
            self.helps = other.helps;
        }
        self.worse.extend(other.worse);
    }
}

/// What the series of all durations recommend: per change the duration for which it gains most.
pub(super) fn advice(run: &Run, series: &[&Series], style: &Style) -> Advice {
    let mut findings: Vec<Finding> = Vec::new();
    for (asked, series) in by_asked(series) {
        let Some(asked) = asked else { continue };
        let figures = Figures::of(run, asked, &series, style);
        for finding in of_duration(&figures, run, style) {
            match findings.iter_mut().find(|known| known.name == finding.name) {
                Some(known) => known.takes_in(finding),
                None => findings.push(finding),
            }
        }
    }
    let mut advice = Advice::default();
    for Finding { name, helps, worse, trade } in findings {
        let losses = words::listed(&worse, usize::MAX);
        match helps {
            Some(help) if worse.is_empty() => if trade { &mut advice.trades } else { &mut advice.helps }.push(help),
            Some((gain, _)) => {
                let gain = unbroken(&units::duration(gain, style));
                advice.mixed.push(format!("{name}: up to {gain} earlier at p50, but {losses}"));
            }
            None if worse.is_empty() => advice.no_difference.push(name),
            None => advice.worse.push(format!("{name}: {losses}")),
        }
    }
    advice
}

fn of_duration(figures: &Figures<'_>, run: &Run, style: &Style) -> Vec<Finding> {
    let levers = words::levers(figures);
    let mut findings: Vec<Finding> =
        levers.iter().filter_map(|lever| conditions(figures, lever, &levers, style)).collect();
    findings.extend(timer(figures, run, style));
    findings.extend(absolute(figures, run, style));
    // Where the library's sleeper was measured, it is what spins for the last part.
    if !run.series.iter().any(|series| series.experiment == on_time::EXPERIMENT) {
        findings.extend(spin(figures, run, style));
    }
    findings
}

/// A change of conditions.
fn conditions(figures: &Figures<'_>, lever: &Lever<'_, '_>, all: &[Lever<'_, '_>], style: &Style) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let Remedy { name, mut price, mut code } = remedy(lever, style)?;
    // The same set compared with an earlier one has its price and its code there.
    if all
        .iter()
        .take_while(|its| *its != lever)
        .any(|its| its.kind == lever.kind && its.to == lever.to && its.gain().is_some())
    {
        (price, code) = ("", None);
    }
    let (before, after) = (from.p50?, to.p50?);
    let helps = before.exceeds(&after).map(|gain| {
        let effect = effect(from, to, gain, style);
        let text = format!("{effect}: {name} ({}, {}). {price}", to.subject, asked(figures, style));
        (gain.value, Item { text: text.trim_end().to_owned(), code })
    });
    let worse = after.exceeds(&before).map(|loss| {
        let later = unbroken(&units::duration(loss.value, style));
        format!("{later} later at p50 ({}; {}, {})", instead(from, to, style), to.subject, asked(figures, style))
    });
    Some(Finding { worse: worse.into_iter().collect(), ..Finding::new(name, helps) })
}

fn asked(figures: &Figures<'_>, style: &Style) -> String {
    unbroken(&units::exact(figures.asked_ns, style))
}

/// `49.5 µs earlier at p50 (24.7 instead of 74.2 µs), 56.2 µs at p99`.
fn effect(from: &Figure<'_>, to: &Figure<'_>, gain: Difference, style: &Style) -> String {
    let duration = |ns: i64| unbroken(&units::duration(ns, style));
    let at_p99 = match (from.p99, to.p99) {
        (Some(before), Some(after)) => match (before.exceeds(&after), after.exceeds(&before)) {
            (Some(gain), _) => format!(", {} at p99", duration(gain.value)),
            (_, Some(loss)) => format!(", but {} later at p99", duration(loss.value)),
            _ => ", no difference shown at p99".to_owned(),
        },
        _ => String::new(),
    };
    format!("{} earlier at p50 ({}){at_p99}", duration(gain.value), instead(from, to, style))
}

/// `24.7 instead of 74.2 µs`.
fn instead(from: &Figure<'_>, to: &Figure<'_>, style: &Style) -> String {
    let p50 = |figure: &Figure<'_>| figure.p50.map_or(0, |estimate| estimate.value);
    units::instead(p50(to), p50(from), style)
}

/// A timer without slack instead of a sleeping call, under the same conditions.
fn timer(figures: &Figures<'_>, run: &Run, style: &Style) -> Option<Finding> {
    let (from, to, gain) = words::without_slack_row(figures)?;
    let name = format!("{} instead of {}", to.subject, from.subject);
    let text = format!(
        "{}: {name} ({}). Its timer has no slack; it needs a file descriptor, but no privilege.",
        effect(from, to, gain, style),
        asked(figures, style)
    );
    Some(Finding::new(name, Some((gain.value, Item { text, code: code(&to.subject, run) }))))
}

/// An absolute deadline instead of a duration, by the same call under the same conditions.
fn absolute(figures: &Figures<'_>, run: &Run, style: &Style) -> Option<Finding> {
    let relative = |to: &Figure<'_>| {
        let stem = to.subject.strip_suffix("_abs")?;
        figures.sleeping().find(|row| {
            row.quantity == Quantity::Overshoot
                && row.conditions == to.conditions
                && (row.subject == stem || row.subject.strip_suffix("_rel") == Some(stem))
        })
    };
    let absolute = |row: &&Figure<'_>| row.quantity == Quantity::Lateness && relative(row).is_some();
    let to = words::best(figures.sleeping().filter(absolute))?;
    let from = relative(to)?;
    let name = format!("{} (absolute deadline) instead of {}", to.subject, from.subject);
    let helps = from.p50?.exceeds(&to.p50?).map(|gain| {
        let text = format!("{}: {name} ({}).", effect(from, to, gain, style), asked(figures, style));
        (gain.value, Item { text, code: code(&to.subject, run) })
    });
    Some(Finding::new(name, helps))
}

/// Spinning through the last part of a wait, by what the best sleeping method lacks.
fn spin(figures: &Figures<'_>, run: &Run, style: &Style) -> Option<Finding> {
    let sleeping = words::best(figures.ranked().filter(|row| row.sleeps() == Some(true)))?;
    let alike = |row: &&Figure<'_>| row.sleeps() == Some(false) && row.conditions == sleeping.conditions;
    let spinning = words::best(figures.exact().filter(alike))?;
    let name = "spinning for the last part".to_owned();
    let helps = sleeping.p50?.exceeds(&spinning.p50?).map(|gain| {
        let effect = effect(sleeping, spinning, gain, style);
        let (spin, sleep) = (figures.name(spinning), &sleeping.subject);
        let mut text = format!("{effect}: {name} ({spin} against {sleep}, {}).", asked(figures, style));
        if let Some(share) = spinning.cpu_share {
            text.push_str(&format!(" It takes {} of a CPU while it spins.", unbroken(&units::share(share))));
        }
        if let Some(p99) = sleeping.p99.filter(|p99| p99.value < figures.asked_ns) {
            let late = unbroken(&units::duration(p99.value, style));
            text.push_str(&format!(
                " A sleep that ends {late} (its p99) before the deadline leaves that to spin, and ends too late in about one \
                 wait of a hundred."
            ));
        }
        (gain.value, Item { text, code: code(&spinning.subject, run) })
    });
    Some(Finding { trade: true, ..Finding::new(name, helps) })
}

fn code(subject: &str, run: &Run) -> Option<String> {
    line(subject, run.host.architecture.as_deref()).map(str::to_owned)
}
