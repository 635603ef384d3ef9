//! Conclusions on messages: the mechanism for small and large messages, for latency and throughput, for a receiver that
//! sleeps and for one that spins. A mechanism is called the quickest only if its rounds show it. Kind, place and size of
//! messages are put into words here.

use crate::family::ipc::traffic::{Message, bytes, megabytes, place};
use punctual_record::experiment::ipc::{Mode, Receive};
use punctual_record::{Run, Series};

use crate::document::{Block, Item, Section};
use crate::evidence::Outcome;
use crate::family::ipc::traffic::{Contest, Race, contests, races, sleeps};
use crate::format::naming::under;
use crate::format::{grouped, listed, spoken, unbroken, units};

/// One thing that the figures show, and the series whose calls belong to it.
struct Finding<'a> {
    text: String,
    best: Option<&'a Series>,
}

/// The words: a list per size and set of conditions, under each mechanism the calls that it takes.
pub(super) fn sections(run: &Run, series: &[Message<'_>]) -> Vec<Section> {
    let several = series.iter().any(|message| message.conditions != series[0].conditions);
    let contests = contests(series);
    // For each contest: those that sleep, those that spin, the best of both.
    let lists: Vec<Vec<Message<'_>>> = contests.iter().flat_map(lists).collect();
    let raced = races(run, &lists);
    let mut said: Vec<(String, Item)> = Vec::new();
    let mut calls: Vec<&str> = Vec::new();
    for (contest, races) in contests.iter().zip(raced.chunks(3)) {
        let findings =
            if contest.common.mode == Mode::Saturated { throughput(contest) } else { latency(contest, races) };
        let mut heading = format!("To pass messages of {}", bytes(contest.common.size));
        if several {
            heading.push_str(&format!(", {}", under(contest.common.conditions)));
        }
        for Finding { text, best } in findings {
            let code = best.and_then(|best| best.about.call.as_deref()).filter(|call| !calls.contains(call));
            calls.extend(code);
            said.push((heading.clone(), Item { text, code: code.map(str::to_owned) }));
        }
    }
    let refs: Vec<&(String, Item)> = said.iter().collect();
    let section = |(heading, items): (&str, Vec<&(String, Item)>)| {
        Section::new(heading).with(Block::Items(items.into_iter().map(|(_, item)| item.clone()).collect()))
    };
    grouped(&refs, |(heading, _)| heading.as_str()).into_iter().map(section).collect()
}

/// Of traffic whose latency is not time in a queue.
fn lists<'a>(contest: &Contest<'a>) -> [Vec<Message<'a>>; 3] {
    if contest.common.mode == Mode::Saturated {
        return Default::default();
    }
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(sleeps);
    let both = super::traffic::quickest(&sleeping).into_iter().chain(super::traffic::quickest(&spinning)).collect();
    [sleeping, spinning, both]
}

/// The quickest of those whose receiver sleeps, and the quickest of those that spin.
fn latency<'a>(contest: &Contest<'a>, races: &[Option<Race<'a>>]) -> Vec<Finding<'a>> {
    let [sleeping, spinning, both] = races else { return Vec::new() };
    let what = match (contest.common.mode, contest.common.interval_ns) {
        (Mode::PingPong, _) => "there and back".to_owned(),
        (Mode::Sporadic, Some(ns)) => format!("one way (one every {})", spoken::exact(ns)),
        (_, Some(ns)) => format!("one way (one due every {})", spoken::exact(ns)),
        (mode, None) => format!("one way ({mode})"),
    };
    let place = place(contest.series[0].parameters);
    let mut findings = Vec::new();
    if let Some(race) = sleeping {
        let who = if spinning.is_none() { "" } else { " with a receiver that sleeps" };
        findings
            .push(Finding { text: quickest(race, &format!("{what} on {place}{who}")), best: Some(race.best.series) });
    }
    // The slower one is the only other of the two.
    let slower =
        both.as_ref().and_then(|race| race.others.first()).filter(|(_, effect)| effect.outcome == Outcome::Better);
    if slower.is_some_and(|(other, _)| !sleeps(other)) {
        let text = format!("Polling does not pay on {place}: it keeps the other process from running.");
        findings.push(Finding { text, best: None });
    } else if let Some(race) = spinning {
        let what = format!("{what} on {place} with a receiver that polls, which costs it a CPU");
        findings.push(Finding { text: quickest(race, &what), best: Some(race.best.series) });
    }
    findings
}

/// The quickest, those that show no difference from it, and those that were not tested.
fn quickest(race: &Race<'_>, what: &str) -> String {
    let names = |outcome: Outcome| -> Vec<String> {
        race.others.iter().filter(|(_, effect)| effect.outcome == outcome).map(|(message, _)| name(message)).collect()
    };
    let (slower, equal, untested) = (names(Outcome::Better), names(Outcome::NoDifference), names(Outcome::NotTested));
    let summary = &race.best.summary;
    let mut figures = format!("{} at p50", unbroken(&units::known(summary.p50)));
    if let Some(p99) = summary.p99 {
        figures.push_str(&format!(", {} at p99", spoken::duration(p99)));
    }
    let capital = what[..1].to_uppercase() + &what[1..];
    let mut text = if race.others.is_empty() {
        format!("{capital}: {}, {figures}.", name(&race.best))
    } else if !slower.is_empty() {
        format!("Quickest {what}: {}, {figures}.", name(&race.best))
    } else {
        format!("Lowest median {what}: {}, {figures}.", name(&race.best))
    };
    if !equal.is_empty() {
        text.push_str(&format!(" At p50, no difference is shown from {}.", listed(&equal, 4)));
    }
    if !untested.is_empty() {
        text.push_str(&format!(" Not tested against {}.", listed(&untested, 4)));
    }
    text
}

fn name(series: &Message<'_>) -> String {
    let name = series.subject.clone();
    if series.parameters.receive == Receive::Backoff { format!("{name} (backoff)") } else { name }
}

/// What passes most, among those that sleep and among those that spin. These are figures, not tests: a round has no rate.
fn throughput<'a>(contest: &Contest<'a>) -> Vec<Finding<'a>> {
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(sleeps);
    let rate = |series: &Message<'_>| series.metrics.per_second.unwrap_or(0.0);
    let shown = |series: &Message<'a>| {
        let per_second = rate(series);
        let messages = unbroken(&format!("{} a second", units::count(per_second.round() as u64)));
        let mb = unbroken(&format!("{} MB/s", megabytes(per_second * contest.common.size as f64)));
        format!("{}, {messages} ({mb})", name(series))
    };
    let most = |mut series: Vec<Message<'a>>, who: &str| {
        series.retain(|message| message.metrics.per_second.is_some());
        series.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        let best = *series.first()?;
        let place = place(contest.series[0].parameters);
        let text = match series.get(1) {
            Some(second) => format!("Most messages on {place}{who}: {}; then {}.", shown(&best), shown(second)),
            None => format!("Messages on {place}{who}: {}.", shown(&best)),
        };
        Some(Finding { text, best: Some(best.series) })
    };
    let pays = |series: &[Message<'_>]| series.iter().map(rate).fold(0.0, f64::max);
    let spinning = if pays(&spinning) > pays(&sleeping) { spinning } else { Vec::new() };
    let who = if sleeping.is_empty() { "" } else { " with a receiver that polls" };
    [most(sleeping, ""), most(spinning, who)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_as_people_read_them() {
        assert_eq!(
            (bytes(8), bytes(65_536), bytes(1 << 20), bytes(1500)),
            ("8 B".into(), "64 KiB".into(), "1 MiB".into(), "1500 B".into())
        );
        assert_eq!(megabytes(1.5e9), "1500");
        assert_eq!(megabytes(12_345_678.0), "12.3");
        assert_eq!(megabytes(640.0), "0.001");
    }
}
