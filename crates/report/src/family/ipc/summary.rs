//! Conclusions on messages: the mechanism for small and large messages, for latency and throughput, with a sleeping and
//! a spinning receiver. A mechanism is called better only if the confidence intervals do not overlap.

use std::collections::BTreeMap;

use punctual_record::experiment::ipc::{Mode, Placement, Receive};
use punctual_record::{Run, Series};

use crate::document::{Block, Item, Section};
use crate::format::prose::{listed, unbroken};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{conditions, under};
use crate::words::Estimate;

use super::traffic::{Message, bytes, megabytes};

/// The well-known mechanism with which the best is compared.
const USUAL: &str = "pipe";

/// One group of series that differ in mechanism and way of receiving only.
struct Contest<'a> {
    conditions: &'a str,
    size: u64,
    place: Placement,
    mode: Mode,
    series: Vec<Message<'a>>,
}

fn contests<'a>(series: &[Message<'a>]) -> Vec<Contest<'a>> {
    let mut all: BTreeMap<(&'a str, u64, Placement, Mode), Vec<Message<'a>>> = BTreeMap::new();
    for series in series {
        let its = series.parameters;
        all.entry((&series.series.conditions, its.size, its.place, its.mode)).or_default().push(*series);
    }
    let contest = |((conditions, size, place, mode), series)| Contest { conditions, size, place, mode, series };
    all.into_iter().map(contest).collect()
}

/// A receiver that sleeps when it waits.
fn sleeps(series: &Message<'_>) -> bool {
    series.parameters.receive == Receive::Block
}

fn estimate(series: &Series) -> Option<Estimate> {
    Some(Estimate { value: series.summary.p50?, interval: series.summary.ci95.p50 })
}

/// The words: a list per size and set of conditions, under each mechanism the calls that it takes.
pub(super) fn sections(run: &Run, series: &[Message<'_>]) -> Vec<Section> {
    let several = series.iter().any(|its| its.conditions != series[0].conditions);
    let mut told: Vec<(String, Vec<Item>)> = Vec::new();
    let mut calls: Vec<&str> = Vec::new();
    for contest in contests(series) {
        let findings = if contest.mode == Mode::Saturated { throughput(&contest) } else { latency(&contest) };
        if findings.is_empty() {
            continue;
        }
        let mut heading = format!("To pass messages of {}", bytes(contest.size));
        if several {
            heading.push_str(&format!(", {}", under(&conditions(run, contest.conditions))));
        }
        let items = findings.into_iter().map(|Finding { text, best }| {
            let code = best.and_then(|best| best.about.call.as_deref()).filter(|call| !calls.contains(call));
            calls.extend(code);
            Item { text, code: code.map(sanitize) }
        });
        let items: Vec<Item> = items.collect();
        match told.iter_mut().find(|(its, _)| *its == heading) {
            Some((_, all)) => all.extend(items),
            None => told.push((heading, items)),
        }
    }
    told.into_iter().map(|(heading, items)| Section::new(heading).with(Block::Items(items))).collect()
}

/// One thing that the figures show, and the series whose calls belong to it.
struct Finding<'a> {
    text: String,
    best: Option<&'a Series>,
}

/// The quickest of those whose receiver sleeps, and the quickest of those that spin.
fn latency<'a>(contest: &Contest<'a>) -> Vec<Finding<'a>> {
    let what = match contest.mode {
        Mode::PingPong => "there and back".to_owned(),
        other => format!("one way ({other})"),
    };
    let place = place(contest);
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(sleeps);
    let mut findings = Vec::new();
    if let Some((best, text)) = quickest(&sleeping) {
        let who = if spinning.is_empty() { "" } else { " with a receiver that sleeps" };
        findings.push(Finding { text: format!("Quickest {what} on {place}{who}: {text}."), best: Some(best.series) });
    }
    let p50 = |series: &[Message<'_>]| series.iter().filter_map(|s| s.summary.p50).min();
    if p50(&spinning).zip(p50(&sleeping)).is_some_and(|(awake, asleep)| awake > asleep) {
        let text = format!("Polling does not pay on {place}: it keeps the other process from running.");
        findings.push(Finding { text, best: None });
    } else if let Some((best, text)) = quickest(&spinning) {
        let price = "with a receiver that polls, which costs it a CPU";
        findings
            .push(Finding { text: format!("Quickest {what} on {place} {price}: {text}."), best: Some(best.series) });
    }
    findings
}

fn place(contest: &Contest<'_>) -> &'static str {
    match contest.place {
        Placement::SameCpu => "one CPU",
        Placement::TwoCpus => "two CPUs",
        Placement::AnyCpu => "any CPU",
    }
}

/// The quickest, and those that show no difference from it.
fn quickest<'a>(series: &[Message<'a>]) -> Option<(Message<'a>, String)> {
    let best = *series.iter().min_by_key(|s| s.summary.p50.unwrap_or(i64::MAX))?;
    let estimate_of_best = estimate(&best)?;
    let mut equal: Vec<String> = series
        .iter()
        .filter(|s| s.subject != best.subject || s.parameters.receive != best.parameters.receive)
        .filter(|s| estimate(s).is_some_and(|its| its.exceeds(&estimate_of_best).is_none()))
        .map(|s| name(s))
        .collect();
    // Each pair of CPUs has its series.
    equal.sort();
    equal.dedup();
    let mut text = format!("{}, {} at p50", name(&best), unbroken(&units::duration(best.summary.p50?)));
    if let Some(p99) = best.summary.p99 {
        text.push_str(&format!(", {} at p99", unbroken(&units::duration(p99))));
    }
    if !equal.is_empty() {
        let names = listed(&equal, 4);
        text.push_str(&format!(". At p50, no difference from {names}"));
    }
    Some((best, text))
}

fn name(series: &Message<'_>) -> String {
    let name = sanitize(&series.subject);
    if series.parameters.receive == Receive::Backoff { format!("{name} (backoff)") } else { name }
}

/// What passes most, among those that sleep and among those that spin.
fn throughput<'a>(contest: &Contest<'a>) -> Vec<Finding<'a>> {
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(sleeps);
    let rate = |series: &Message<'_>| series.metrics.per_second.unwrap_or(0.0);
    let most = |series: &[Message<'a>]| {
        let best = *series.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let per_second = best.metrics.per_second?;
        let (messages, mb) = (units::count(per_second.round() as u64), megabytes(per_second * contest.size as f64));
        let rate = unbroken(&format!("{messages} a second"));
        Some((best, format!("{}, {rate} ({})", name(&best), unbroken(&format!("{mb} MB/s")))))
    };
    let place = place(contest);
    let pays = |series: &[Message<'_>]| series.iter().map(rate).fold(0.0, f64::max);
    let spinning = if pays(&spinning) > pays(&sleeping) { spinning } else { Vec::new() };
    let (asleep, awake) = (most(&sleeping), most(&spinning));
    let who = if asleep.is_some() { " with a receiver that polls" } else { "" };
    let asleep = asleep.map(|(best, text)| (best, format!("Most messages on {place}: {text}.")));
    let awake = awake.map(|(best, text)| (best, format!("Most messages on {place}{who}: {text}.")));
    asleep.into_iter().chain(awake).map(|(best, text)| Finding { text, best: Some(best.series) }).collect()
}
