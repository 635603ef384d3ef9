//! Rankings: the best method, the benefit of spinning, the lowest CPU time.

use crate::format::prose::listed;
use crate::format::units;
use crate::naming::under;

use super::figures::{Estimate, Figure, Figures, best};
use super::finding::{Code, Finding, Place, Sentence};

/// How many names a sentence lists before it counts the rest.
const NAMES: usize = 4;

/// Which method to use: the least late of those that sleep, or of all where none does. Where most methods were measured under the same
/// conditions, it is chosen among those.
#[must_use]
pub fn answer(figures: &Figures<'_>) -> Option<Finding> {
    let all: Vec<&Figure<'_>> = figures.ranked().collect();
    let sleeping: Vec<&Figure<'_>> = all.iter().copied().filter(|row| row.sleeps() == Some(true)).collect();
    let under = figures.usual.as_ref().map_or(String::new(), |usual| format!(" {}", under(usual)));
    if let Some(first) = best(sleeping.iter().copied()) {
        let lead = if sleeping.len() < all.len() { "Least late of those that sleep" } else { "Least late" };
        let mut finding = least_late(figures, &sleeping, &format!("{lead}{under}"))?;
        finding.tails.extend(awake(figures, first));
        return Some(finding);
    }
    let mut finding = least_late(figures, &all, &format!("Least late{under}"))?;
    if all.iter().all(|row| row.sleeps() == Some(false)) {
        finding.tails.push(Sentence::new("None of them sleeps: each gave up the CPU in fewer than half of its waits."));
    }
    Some(finding)
}

/// A method that did not sleep and is less late than the least late sleeping one, where the trade-off does not name one.
fn awake(figures: &Figures<'_>, sleeping: &Figure<'_>) -> Option<Sentence> {
    let awake = best(figures.ranked().filter(|row| row.sleeps() == Some(false)))?;
    sleeping.p50?.exceeds(&awake.p50?)?;
    if spinning_like(figures, sleeping).is_some() {
        return None;
    }
    let words = format!("Without giving up the CPU, {} is less late: ", figures.name(awake));
    Some(Sentence::new(words).figure(units::duration(awake.p50?.value)).words(" at p50."))
}

/// The best spinning method under the conditions of a sleeping one.
fn spinning_like<'f, 'a>(figures: &'f Figures<'a>, sleeping: &Figure<'_>) -> Option<&'f Figure<'a>> {
    let same = |row: &&Figure<'_>| row.sleeps() == Some(false) && row.conditions == sleeping.conditions;
    best(figures.exact().filter(same))
}

fn value(estimate: Option<Estimate>) -> i64 {
    estimate.map_or(i64::MAX, |estimate| estimate.value)
}

fn least_late(figures: &Figures<'_>, rows: &[&Figure<'_>], lead: &str) -> Option<Finding> {
    let first = best(rows.iter().copied())?;
    let p50 = first.p50?;
    let mut head = Sentence::new(lead);
    if p50.interval.is_none() {
        head = head.words(" in this run");
    }
    head = head.words(format!(": {}, ", figures.name(first))).figure(units::duration(p50.value)).words(" at p50");
    if let Some(p99) = first.p99 {
        head = head.words(", ").figure(units::duration(p99.value)).words(" at p99");
    }
    let doubt = if p50.interval.is_none() { "; too few samples to say that it is so." } else { "." };
    let mut finding = Finding::new(Place::Answer, head.words(doubt));
    finding.code = first.code.clone().map(Code::Call);
    if p50.interval.is_none() {
        return Some(finding);
    }
    let alike = |row: &&&Figure<'_>| row.p50.is_some_and(|its| its.exceeds(&p50).is_none());
    let others = rows.iter().filter(|row| !std::ptr::eq(**row, first));
    let equal: Vec<String> = others.filter(alike).map(|row| figures.name(row)).collect();
    if !equal.is_empty() {
        finding.tails.push(Sentence::new(format!("At p50, no difference from {}.", listed(&equal, NAMES))));
    }
    finding.tails.extend(better_at_p99(figures, rows, first));
    Some(finding)
}

fn better_at_p99(figures: &Figures<'_>, rows: &[&Figure<'_>], first: &Figure<'_>) -> Option<Sentence> {
    let p99 = first.p99?;
    let better = rows.iter().filter(|row| row.p99.is_some_and(|its| p99.exceeds(&its).is_some()));
    let other = better.min_by_key(|row| value(row.p99))?;
    let words = format!("At p99, {} is less late: ", figures.name(other));
    Some(Sentence::new(words).figure(units::duration(other.p99?.value)).words("."))
}

/// What the best spinning method buys over the best sleeping one under the same conditions, and what it costs.
#[must_use]
pub fn trade_off(figures: &Figures<'_>) -> Option<Finding> {
    let sleeping = best(figures.ranked().filter(|row| row.sleeps() == Some(true)))?;
    let spinning = spinning_like(figures, sleeping)?;
    let (spin_share, sleep_share) = (spinning.cpu_share?, sleeping.cpu_share?);
    let (spin, sleep) = (spinning.p50?, sleeping.p50?);
    let name = &spinning.subject;
    let head = match (sleep.exceeds(&spin), spin.exceeds(&sleep)) {
        (Some(gain), _) => {
            let gained = Sentence::new("Spinning wakes ").figure(gain.shown());
            gained
                .words(format!(" earlier at p50 than sleeping ({name}, "))
                .figure(units::duration(spin.value))
                .words(")")
        }
        (_, Some(loss)) => {
            let lost = Sentence::new(format!("Spinning does not pay here: {name} wakes "));
            lost.figure(loss.shown()).words(format!(" later at p50 than {}", sleeping.subject))
        }
        _ => Sentence::new(format!("Spinning ({name}) and sleeping ({}) show no difference at p50", sleeping.subject)),
    };
    let pays = sleep.exceeds(&spin).is_some();
    let cost = head.words(", for ").figure(units::share(spin_share)).words(" of a CPU instead of ");
    let mut finding = Finding::new(Place::TradeOff, cost.figure(units::share(sleep_share)).words("."));
    finding.code = spinning.code.clone().filter(|_| pays).map(Code::Call);
    Some(finding)
}

/// What CPU time a wait takes, of those that sleep where any do, and which of them differ.
#[must_use]
pub fn cpu_time(figures: &Figures<'_>) -> Option<Finding> {
    let asleep = figures.ranked().any(|row| row.sleeps() == Some(true));
    let ours = |row: &&Figure<'_>| row.cpu_ns.is_some() && (!asleep || row.sleeps() == Some(true));
    let rows: Vec<&Figure<'_>> = figures.ranked().filter(ours).collect();
    let cost = |row: &Figure<'_>| row.cpu_ns.unwrap_or(f64::MAX);
    let first = *rows.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let all = if asleep { " per wait for those that sleep" } else { " per wait" };
    let least = || {
        let lead = Sentence::new("CPU time: ").figure(units::duration_fine(cost(first)));
        lead.words(format!("{all} at the least ({})", figures.name(first)))
    };
    let Some((_, high)) = first.cpu_rounds else {
        let head = least().words("; the run has no rounds to compare others by.");
        return Some(Finding::new(Place::Cpu, head));
    };
    let apart = |row: &Figure<'_>| row.cpu_rounds.is_some_and(|(low, _)| low > high);
    let named = |wanted: bool| -> Vec<String> {
        let others = rows.iter().filter(|row| !std::ptr::eq(**row, first) && apart(row) == wanted);
        others.map(|row| figures.name(row)).collect()
    };
    let (equal, more) = (named(false), named(true));
    let head = match (equal.as_slice(), more.as_slice()) {
        ([], []) => Sentence::new("CPU time: ").figure(units::duration_fine(cost(first))).words(format!("{all}.")),
        (_, []) => {
            let head = Sentence::new("CPU time: about ").figure(units::about(median(&rows)));
            head.words(format!("{all}; no method differs from the least."))
        }
        ([], more) if more.len() > NAMES => least().words("; all others take more."),
        ([], more) => least().words(format!("; more for {}.", listed(more, NAMES))),
        (equal, more) if more.len() <= equal.len() => {
            least().words(format!("; more for {}, no difference for the others.", listed(more, NAMES)))
        }
        (equal, _) => least().words(format!("; no difference for {}, more for the others.", listed(equal, NAMES))),
    };
    Some(Finding::new(Place::Cpu, head))
}

fn median(rows: &[&Figure<'_>]) -> f64 {
    let mut costs: Vec<f64> = rows.iter().filter_map(|row| row.cpu_ns).collect();
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(0.0)
}
