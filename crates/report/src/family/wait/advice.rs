//! What the waiting part of a check-up recommends: each change that this run measured, with its gain at p50, the price
//! where there is one, and the line to write. A change without a shown gain is named as making no difference here.

use punctual_record::{ConditionSet, Quantity, Run, Series};

use crate::background::set_label;
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
    let mut findings: Vec<Finding> =
        words::levers(figures).iter().filter_map(|lever| conditions(figures, lever, style)).collect();
    findings.extend(absolute(figures, run, style));
    findings.extend(spin(figures, run, style));
    findings
}

/// A change of conditions.
fn conditions(figures: &Figures<'_>, lever: &Lever<'_, '_>, style: &Style) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let policy = plain(lever.to.applied.policy.as_deref()?, style);
    let (name, code) = match lever.kind {
        Kind::Slack => slack(lever.from, lever.to, &policy, style)?,
        Kind::Policy => {
            let (own, other) = (quoted(lever.to, style), quoted(lever.from, style));
            (format!("{own} instead of {other}"), policy_call(&policy))
        }
    };
    let gain = from.p50?.exceeds(&to.p50?);
    let helps = gain.map(|gain| {
        let text = format!("{name}: {}", effect(figures, &to.subject, from, to, gain, style));
        (gain.value, Item { text, code })
    });
    Some(Finding { name, helps })
}

fn quoted(set: &ConditionSet, style: &Style) -> String {
    words::quoted(&set_label(set, style))
}

fn slack(from: &ConditionSet, to: &ConditionSet, policy: &str, style: &Style) -> Option<(String, Option<String>)> {
    let ns = |set: &ConditionSet| set.applied.timer_slack_ns.and_then(|ns| i64::try_from(ns).ok());
    let (large, small) = (ns(from)?, ns(to)?);
    let name = format!(
        "timer slack {} instead of {} under {policy}",
        unbroken(&units::exact(small, style)),
        unbroken(&units::exact(large, style))
    );
    // prctl(2): 0 would put the inherited slack back.
    Some((name, (small > 0).then(|| format!("prctl(PR_SET_TIMERSLACK, {small}UL);"))))
}

/// The line of C that sets a real-time policy; deadline scheduling has no call that fits on a line.
fn policy_call(policy: &str) -> Option<String> {
    let (name, priority) = policy.split_once(':')?;
    let constant = match name {
        "fifo" => "SCHED_FIFO",
        "rr" => "SCHED_RR",
        _ => return None,
    };
    let priority: u8 = priority.parse().ok()?;
    Some(format!("sched_setscheduler(0, {constant}, &(struct sched_param){{ .sched_priority = {priority} }});"))
}

/// `clock_nanosleep_abs, asked for 100 µs, wakes 47.3 µs [...] earlier at p50 (4.90 µs instead of 52.2 µs)`.
fn effect(
    figures: &Figures<'_>,
    subject: &str,
    from: &Figure<'_>,
    to: &Figure<'_>,
    gain: Difference,
    style: &Style,
) -> String {
    let p50 = |figure: &Figure<'_>| figure.p50.map_or(0, |estimate| estimate.value);
    let at_p99 = match (from.p99, to.p99) {
        (Some(before), Some(after)) => match (before.exceeds(&after), after.exceeds(&before)) {
            (Some(gain), _) => format!(", {} earlier at p99", words::apart(gain, style)),
            (_, Some(loss)) => format!(", but {} later at p99", words::apart(loss, style)),
            _ => ", no difference shown at p99".to_owned(),
        },
        _ => String::new(),
    };
    format!(
        "{subject}, asked for {}, wakes {} earlier at p50 ({} instead of {}){at_p99}.",
        unbroken(&units::exact(figures.asked_ns, style)),
        words::apart(gain, style),
        unbroken(&units::duration(p50(to), style)),
        unbroken(&units::duration(p50(from), style))
    )
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
    let gain = from.p50?.exceeds(&to.p50?);
    let helps = gain.map(|gain| {
        let under = if figures.many_conditions {
            format!("under {}, it", words::quoted(&to.conditions))
        } else {
            "it".to_owned()
        };
        let text = format!("{name}: {}", effect(figures, &under, from, to, gain, style));
        (gain.value, Item { text, code: code(&to.subject, run) })
    });
    Some(Finding { name, helps })
}

/// Spinning through the last part of a wait, by what the best sleeping method lacks.
fn spin(figures: &Figures<'_>, run: &Run, style: &Style) -> Option<Finding> {
    let sleeping = words::best(figures.sleeping())?;
    let alike = |row: &&Figure<'_>| row.sleeps() == Some(false) && row.conditions == sleeping.conditions;
    let spinning = words::best(figures.exact().filter(alike))?;
    let name = "spinning for the last part".to_owned();
    let helps = sleeping.p50?.exceeds(&spinning.p50?).map(|gain| {
        let by = words::apart(gain, style);
        let mut text = format!(
            "{name}: {}, asked for {}, wakes {by} earlier at p50 than {}",
            figures.name(spinning),
            unbroken(&units::exact(figures.asked_ns, style)),
            figures.name(sleeping)
        );
        if let Some(share) = spinning.cpu_share {
            text.push_str(&format!(", at {} of a CPU while it spins", unbroken(&units::share(share))));
        }
        text.push('.');
        if let Some(p99) = sleeping.p99.filter(|p99| p99.value < figures.asked_ns) {
            let late = unbroken(&units::duration(p99.value, style));
            text.push_str(&format!(
                " A sleep that ends {late} (its p99) before the deadline leaves that to spin, and ends too late in about one wait of a hundred."
            ));
        }
        (gain.value, Item { text, code: code(&spinning.subject, run) })
    });
    Some(Finding { name, helps })
}

fn code(subject: &str, run: &Run) -> Option<String> {
    line(subject, run.host.architecture.as_deref()).map(|code| code.line.to_owned())
}
