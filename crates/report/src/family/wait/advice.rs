//! What the waiting part of a check-up recommends: each change that this run measured, with its gain at p50, the price
//! where there is one, and the line to write. A change without a shown gain is named as making no difference here.

use punctual_record::{ConditionSet, Quantity, Run, Series};

use crate::plain::plain;
use crate::story::{Item, unbroken};
use crate::style::Style;
use crate::units;
use crate::words::{self, Difference, Figure, Figures, Kind, Lever};

use super::super::Advice;
use super::super::code::line;
use super::by_asked;

/// One change for one asked duration: what it is called when it makes no difference, and the item when it helps.
struct Finding {
    name: String,
    helps: Option<(i64, Item)>,
}

/// What the series of all durations recommend: per change the duration for which it gains most.
pub(super) fn advice(run: &Run, series: &[&Series], style: &Style) -> Advice {
    let mut findings: Vec<Finding> = Vec::new();
    for (asked, series) in by_asked(series) {
        let Some(asked) = asked else { continue };
        let figures = Figures::of(run, asked, &series, style);
        for finding in of_duration(&figures, run, style) {
            let gain = |finding: &Finding| finding.helps.as_ref().map_or(i64::MIN, |(gain, _)| *gain);
            match findings.iter_mut().find(|known| known.name == finding.name) {
                Some(known) if gain(known) >= gain(&finding) => {}
                Some(known) => *known = finding,
                None => findings.push(finding),
            }
        }
    }
    let mut advice = Advice::default();
    for finding in findings {
        match finding.helps {
            Some(help) => advice.helps.push(help),
            None => advice.no_difference.push(finding.name),
        }
    }
    advice
}

fn of_duration(figures: &Figures<'_>, run: &Run, style: &Style) -> Vec<Finding> {
    let levers = words::levers(figures);
    let mut findings: Vec<Finding> = levers.iter().filter_map(|lever| conditions(figures, lever, style)).collect();
    findings.extend(timer(figures, run, style));
    findings.extend(absolute(figures, run, style));
    findings.extend(spin(figures, run, style));
    findings
}

/// A change of conditions.
fn conditions(figures: &Figures<'_>, lever: &Lever<'_, '_>, style: &Style) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let policy = plain(lever.to.applied.policy.as_deref()?, style);
    let (name, price, code) = match lever.kind {
        Kind::Slack => slack(lever.from, lever.to, &policy, style)?,
        Kind::Policy => real_time(from, to, &policy),
    };
    let gain = from.p50?.exceeds(&to.p50?);
    let helps = gain.map(|gain| {
        let effect = effect(from, to, gain, style);
        let text = format!("{effect}: {name} ({}, {}). {price}", to.subject, asked(figures, style));
        (gain.value, Item { text, code })
    });
    Some(Finding { name, helps })
}

fn asked(figures: &Figures<'_>, style: &Style) -> String {
    unbroken(&units::exact(figures.asked_ns, style))
}

/// Name, price and code of a real-time policy.
fn real_time(from: &Figure<'_>, to: &Figure<'_>, policy: &str) -> (String, String, Option<String>) {
    let name = format!("{} instead of {}", words::running(&to.conditions), words::running(&from.conditions));
    let price = "Needs an rtprio limit or CAP_SYS_NICE. A thread that loops without sleeping then keeps all others off its CPU: \
                 let it sleep in every turn. In C, or from the shell:";
    let chrt = policy.split_once(':').map(|(name, priority)| format!("chrt --{name} {priority} PROGRAM"));
    let code = words::policy_call(policy).zip(chrt).map(|(call, chrt)| format!("{call}\n{chrt}"));
    (name, price.to_owned(), code)
}

/// Name, price and code of less slack.
fn slack(
    from: &ConditionSet,
    to: &ConditionSet,
    policy: &str,
    style: &Style,
) -> Option<(String, String, Option<String>)> {
    let ns = |set: &ConditionSet| set.applied.timer_slack_ns.and_then(|ns| i64::try_from(ns).ok());
    let (large, small) = (ns(from)?, ns(to)?);
    let exact = |ns: i64| unbroken(&units::exact(ns, style));
    let under = if policy == "other" { String::new() } else { format!(" under {}", unbroken(policy)) };
    let name = format!("timer slack {} instead of {}{under}", exact(small), exact(large));
    // proc_pid_timerslack_ns(5): since Linux 4.6, for others with CAP_SYS_NICE since 4.9.
    let price = "Timers are then hardly ever served together, which costs energy where many threads do it. In C, or from \
                 outside for a running program (its main thread and those that this one starts later; needs CAP_SYS_NICE):";
    let outside = format!("echo {small} > /proc/PID/timerslack_ns");
    Some((name, price.to_owned(), words::slack_call(to).map(|call| format!("{call}\n{outside}"))))
}

/// `49.5 µs earlier at p50 (24.7 instead of 74.2 µs), 56.2 µs at p99`.
fn effect(from: &Figure<'_>, to: &Figure<'_>, gain: Difference, style: &Style) -> String {
    let duration = |ns: i64| unbroken(&units::duration(ns, style));
    let p50 = |figure: &Figure<'_>| duration(figure.p50.map_or(0, |estimate| estimate.value));
    let at_p99 = match (from.p99, to.p99) {
        (Some(before), Some(after)) => match (before.exceeds(&after), after.exceeds(&before)) {
            (Some(gain), _) => format!(", {} at p99", duration(gain.value)),
            (_, Some(loss)) => format!(", but {} later at p99", duration(loss.value)),
            _ => ", no difference shown at p99".to_owned(),
        },
        _ => String::new(),
    };
    let (after, before) = (p50(to), p50(from));
    let after = match (after.split_once('\u{a0}'), before.split_once('\u{a0}')) {
        (Some((number, a)), Some((_, b))) if a == b => number.to_owned(),
        _ => after.clone(),
    };
    format!("{} earlier at p50 ({after} instead of {before}){at_p99}", duration(gain.value))
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
    Some(Finding { name, helps: Some((gain.value, Item { text, code: code(&to.subject, run) })) })
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
    Some(Finding { name, helps })
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
    Some(Finding { name, helps })
}

fn code(subject: &str, run: &Run) -> Option<String> {
    line(subject, run.host.architecture.as_deref()).map(str::to_owned)
}
