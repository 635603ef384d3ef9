//! What the figures on messages say: what to use for small and for large messages, for latency and for throughput, when the receiver may
//! sleep and when it may spin. A mechanism is called better only where the confidence intervals do not touch.

use punctual_record::{Quantity, Run, Series};

use crate::plain::plain;
use crate::story::{Block, Item, Section, unbroken};
use crate::style::Style;
use crate::units;
use crate::words::{self, Estimate};

use super::super::Advice;
use super::{bytes, megabytes, outcome, text};

/// A mechanism that everybody knows, with which the best is compared.
const USUAL: &str = "pipe";

/// One group of series that differ in mechanism and way of receiving only.
struct Contest<'a> {
    mode: &'a str,
    place: &'a str,
    size: i64,
    conditions: &'a str,
    series: Vec<&'a Series>,
}

fn contests<'a>(series: &[&'a Series]) -> Vec<Contest<'a>> {
    let mut all: Vec<Contest<'a>> = Vec::new();
    for &series in series {
        let size = words::int(series, "size").unwrap_or(0);
        let (mode, place) = (text(series, "mode"), text(series, "place"));
        let same = |c: &&mut Contest<'_>| {
            c.mode == mode && c.place == place && c.size == size && c.conditions == series.conditions
        };
        match all.iter_mut().find(same) {
            Some(contest) => contest.series.push(series),
            None => all.push(Contest { mode, place, size, conditions: &series.conditions, series: vec![series] }),
        }
    }
    all.sort_by(|a, b| (a.conditions, a.size, a.place, a.mode).cmp(&(b.conditions, b.size, b.place, b.mode)));
    all
}

/// A receiver that sleeps when it waits.
fn sleeps(series: &Series) -> bool {
    text(series, "receive") == "block"
}

fn estimate(series: &Series) -> Option<Estimate> {
    Some(Estimate { value: series.summary.p50?, interval: series.summary.ci95.p50 })
}

/// The words, as one section.
pub(super) fn section(run: &Run, series: &[&Series], style: &Style) -> Option<Section> {
    let several = run.conditions.len() > 1;
    let mut paragraphs: Vec<(String, Vec<String>)> = Vec::new();
    for contest in contests(series) {
        let mut sentences: Vec<String> = Vec::new();
        if contest.mode == "saturated" {
            sentences.extend(throughput(&contest, style));
        } else {
            sentences.extend(latency(&contest, style));
        }
        if sentences.is_empty() {
            continue;
        }
        let mut lead = unbroken(&bytes(contest.size));
        if several {
            lead.push_str(&format!(", under {}", plain(contest.conditions, style)));
        }
        match paragraphs.iter_mut().find(|(its, _)| *its == lead) {
            Some((_, all)) => all.extend(sentences),
            None => paragraphs.push((lead, sentences)),
        }
    }
    if paragraphs.is_empty() {
        return None;
    }
    let mut section = Section::new("In words");
    for (lead, sentences) in paragraphs {
        section.blocks.push(Block::Paragraph(format!("Messages of {lead}. {}", sentences.join(" "))));
    }
    Some(section)
}

/// How many sizes small and large differ in is for the reader; each size has its own paragraph. Here: the quickest of those that sleep,
/// and the quickest of those that spin.
fn latency(contest: &Contest<'_>, style: &Style) -> Vec<String> {
    let what = match contest.mode {
        "ping-pong" => "There and back".to_owned(),
        other => format!("One way ({other})"),
    };
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(|s| sleeps(s));
    let mut sentences = Vec::new();
    if let Some(text) = quickest(&sleeping, style) {
        let who = if spinning.is_empty() { "" } else { " with a receiver that sleeps" };
        sentences.push(format!("{what} on {}{who}: {text}.", place(contest)));
    }
    let p50 = |series: &[&Series]| series.iter().filter_map(|s| s.summary.p50).min();
    if p50(&spinning).zip(p50(&sleeping)).is_some_and(|(awake, asleep)| awake > asleep) {
        sentences.push(format!("Polling does not pay on {}: it keeps the other process from running.", place(contest)));
    } else if let Some(text) = quickest(&spinning, style) {
        let price = "with a receiver that polls, which costs it a CPU";
        sentences.push(format!("{what} on {} {price}: {text}.", place(contest)));
    }
    sentences
}

fn place(contest: &Contest<'_>) -> &'static str {
    match contest.place {
        "same CPU" => "one CPU",
        "two CPUs" => "two CPUs",
        _ => "any CPU",
    }
}

/// The quickest, and those that cannot be told from it.
fn quickest(series: &[&Series], style: &Style) -> Option<String> {
    let best = series.iter().min_by_key(|s| s.summary.p50.unwrap_or(i64::MAX))?;
    let estimate_of_best = estimate(best)?;
    let equal: Vec<String> = series
        .iter()
        .filter(|s| s.subject != best.subject || text(s, "receive") != text(best, "receive"))
        .filter(|s| estimate(s).is_some_and(|its| its.exceeds(&estimate_of_best).is_none()))
        .map(|s| name(s, style))
        .collect();
    let mut text =
        format!("{} is quickest, p50 {}", name(best, style), unbroken(&units::duration(best.summary.p50?, style)));
    if let Some(p99) = best.summary.p99 {
        text.push_str(&format!(", p99 {}", unbroken(&units::duration(p99, style))));
    }
    if !equal.is_empty() {
        text.push_str(&format!("; {} cannot be told from it", words::listed(&equal, 4)));
    }
    Some(text)
}

fn name(series: &Series, style: &Style) -> String {
    let name = plain(&series.subject, style);
    if text(series, "receive") == "backoff" { format!("{name} (backoff)") } else { name }
}

/// What passes most, among those that sleep and among those that spin.
fn throughput(contest: &Contest<'_>, style: &Style) -> Vec<String> {
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(|s| sleeps(s));
    let rate = |series: &Series| outcome(series, "per_second").unwrap_or(0.0);
    let most = |series: &[&Series]| {
        let best = series.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let per_second = outcome(best, "per_second")?;
        let (messages, mb) = (units::count(per_second.round() as u64), megabytes(per_second * contest.size as f64));
        Some(format!("{} passes {messages} a second ({mb} MB/s)", name(best, style)))
    };
    let mut sentences = Vec::new();
    let place = place(contest);
    let pays = |series: &[&Series]| series.iter().map(|s| rate(s)).fold(0.0, f64::max);
    let spinning = if pays(&spinning) > pays(&sleeping) { spinning } else { Vec::new() };
    match (most(&sleeping), most(&spinning)) {
        (Some(asleep), Some(awake)) => {
            sentences.push(format!("For throughput on {place}: {asleep}, with a polling receiver {awake}."));
        }
        (Some(only), None) | (None, Some(only)) => sentences.push(format!("For throughput on {place}: {only}.")),
        (None, None) => {}
    }
    sentences
}

/// What a check-up recommends: the quickest mechanism whose receiver sleeps, where it is shown to be quicker than a pipe.
pub(super) fn advice(_run: &Run, series: &[&Series], style: &Style) -> Advice {
    let mut advice = Advice::default();
    for contest in contests(series).iter().filter(|contest| contest.mode == "ping-pong") {
        let sleeping: Vec<&Series> = contest.series.iter().copied().filter(|s| sleeps(s)).collect();
        let usual = sleeping.iter().find(|s| s.subject == USUAL);
        let best = sleeping.iter().min_by_key(|s| s.summary.p50.unwrap_or(i64::MAX));
        let Some((usual, best)) = usual.zip(best) else { continue };
        let Some((from, to)) = estimate(usual).zip(estimate(best)) else { continue };
        let where_ = format!("messages of {} between processes on {}", unbroken(&bytes(contest.size)), place(contest));
        match from.exceeds(&to) {
            Some(gain) => advice.helps.push((gain.value, item(best, usual, &where_, style))),
            None => advice.no_difference.push(format!("another mechanism than a {USUAL} for {where_}")),
        }
    }
    advice
}

fn item(best: &Series, usual: &Series, where_: &str, style: &Style) -> Item {
    let p50 = |s: &Series| s.summary.p50.map_or(String::new(), |ns| unbroken(&units::duration(ns, style)));
    debug_assert_eq!(best.quantity, Quantity::RoundTrip);
    Item {
        text: format!(
            "{} instead of a {USUAL} for {where_}: {} there and back instead of {}:",
            plain(&best.subject, style),
            p50(best),
            p50(usual)
        ),
        code: Some(plain(text(best, "call"), style)).filter(|code| !code.is_empty()),
    }
}
