//! The recommendations on waiting in a check-up: each measured change with its gain at p50, its price if there is one,
//! and the lines to write. A change without a significant gain is listed as making no difference, or as making it
//! worse.

use punctual_record::{Quantity, Run, Series, Setting};

use crate::document::Item;
use crate::format::prose::{listed, sentence, unbroken};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming;
use crate::words::{self, Figure, Figures, Lever};

use super::super::shared::Advice;

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
pub(super) fn advice(run: &Run, series: &[&Series]) -> Advice {
    let mut findings: Vec<Finding> = Vec::new();
    for (asked, series) in words::by_asked(series) {
        let figures = Figures::of(run, asked, &series);
        for finding in of_duration(&figures, run) {
            match findings.iter_mut().find(|known| known.name == finding.name) {
                Some(known) => known.takes_in(finding),
                None => findings.push(finding),
            }
        }
    }
    let mut advice = Advice::default();
    for Finding { name, helps, worse, trade } in findings {
        let losses = listed(&worse, usize::MAX);
        match helps {
            Some(help) if worse.is_empty() => if trade { &mut advice.trades } else { &mut advice.helps }.push(help),
            Some((gain, _)) => {
                let gain = unbroken(&units::duration(gain));
                advice.mixed.push(format!("{name}: up to {gain} earlier at p50, but {losses}"));
            }
            None if worse.is_empty() => advice.no_difference.push(name),
            None => advice.worse.push(format!("{name}: {losses}")),
        }
    }
    advice
}

fn of_duration(figures: &Figures<'_>, run: &Run) -> Vec<Finding> {
    let levers = words::levers(figures);
    let mut findings: Vec<Finding> = levers.iter().filter_map(|lever| conditions(figures, lever, &levers)).collect();
    findings.extend(timer(figures));
    findings.extend(absolute(figures));
    // Where the library's sleeper was measured, it is what spins for the last part.
    if !run.series.iter().any(|series| series.experiment.on_time().is_some()) {
        findings.extend(spin(figures));
    }
    findings
}

/// A change of conditions.
fn conditions(figures: &Figures<'_>, lever: &Lever<'_, '_>, all: &[Lever<'_, '_>]) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let name = lever.name();
    // The same set compared with an earlier one has its price and its code there.
    let same = |its: &&Lever<'_, '_>| its.setting == lever.setting && its.to == lever.to && its.gain().is_some();
    let told = all.iter().take_while(|its| *its != lever).any(|its| same(&its));
    let Setting { price, code, .. } = lever.setting;
    let price =
        price.as_deref().filter(|_| !told).map_or(String::new(), |price| format!(" {}", sentence(&sanitize(price))));
    let code = code.as_deref().filter(|_| !told).map(naming::code);
    let helps = to.earlier_than(from).map(|(gain, effect)| {
        let text = format!("{effect}: {name} ({}, {}).{price}", to.subject, asked(figures));
        (gain, Item { text, code })
    });
    let instead = to.instead_of(from)?;
    let worse = to.p50?.exceeds(&from.p50?).map(|loss| {
        let later = unbroken(&units::duration(loss.value));
        format!("{later} later at p50 ({instead}; {}, {})", to.subject, asked(figures))
    });
    Some(Finding { worse: worse.into_iter().collect(), ..Finding::new(name, helps) })
}

fn asked(figures: &Figures<'_>) -> String {
    unbroken(&units::exact(figures.asked_ns))
}

/// A timer without slack instead of a sleeping call, under the same conditions.
fn timer(figures: &Figures<'_>) -> Option<Finding> {
    let (from, to, _) = words::without_slack_row(figures)?;
    let (gain, effect) = to.earlier_than(from)?;
    let name = format!("{} instead of {}", to.subject, from.subject);
    let needs = "Its timer has no slack; it needs a file descriptor, but no privilege.";
    let text = format!("{effect}: {name} ({}). {needs}", asked(figures));
    Some(Finding::new(name, Some((gain, Item { text, code: to.code.clone() }))))
}

/// An absolute deadline instead of a duration, by the same call under the same conditions.
fn absolute(figures: &Figures<'_>) -> Option<Finding> {
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
    let helps = to.earlier_than(from).map(|(gain, effect)| {
        let text = format!("{effect}: {name} ({}).", asked(figures));
        (gain, Item { text, code: to.code.clone() })
    });
    Some(Finding::new(name, helps))
}

/// Spinning through the last part of a wait, by what the best sleeping method lacks.
fn spin(figures: &Figures<'_>) -> Option<Finding> {
    let sleeping = words::best(figures.ranked().filter(|row| row.sleeps() == Some(true)))?;
    let alike = |row: &&Figure<'_>| row.sleeps() == Some(false) && row.conditions == sleeping.conditions;
    let spinning = words::best(figures.exact().filter(alike))?;
    let name = "spinning for the last part".to_owned();
    let helps = spinning.earlier_than(sleeping).map(|(gain, effect)| {
        let (spin, sleep) = (figures.name(spinning), &sleeping.subject);
        let mut text = format!("{effect}: {name} ({spin} against {sleep}, {}).", asked(figures));
        if let Some(share) = spinning.cpu_share {
            text.push_str(&format!(" It takes {} of a CPU while it spins.", unbroken(&units::share(share))));
        }
        if let Some(p99) = sleeping.p99.filter(|p99| p99.value < figures.asked_ns) {
            let late = unbroken(&units::duration(p99.value));
            text.push_str(&format!(
                " A sleep that ends {late} (its p99) before the deadline leaves that to spin, and ends too late in about one \
                 wait of a hundred."
            ));
        }
        (gain, Item { text, code: spinning.code.clone() })
    });
    Some(Finding { trade: true, ..Finding::new(name, helps) })
}
