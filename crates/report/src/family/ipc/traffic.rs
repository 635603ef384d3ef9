//! A series of messages with its kind, place and size in words, and mechanisms against each other.
//!
//! Series of a contest differ in mechanism and way of receiving only. The quickest is tested against all others on their
//! rounds.

use punctual_record::experiment::ipc::{Metrics, Mode, Parameters, Placement, Receive};
use punctual_record::{Quantity, Run, Series};

use crate::document::{Block, Item, Section};
use crate::evidence::{Effect, Outcome, at_p50};
use crate::family::shared::{Measured, also};
use crate::format::naming::under;
use crate::format::{gathered, grouped, spoken, unbroken, units};

pub(super) type Message<'a> = Measured<'a, Parameters, Metrics>;

/// What one of the two processes used per message.
pub(super) struct Used {
    pub(super) cpu_ns: Option<f64>,
    /// Of its own, and forced ones.
    pub(super) switches: (Option<f64>, Option<f64>),
}

/// Of the sender and of the receiver. The process that measures receives; in ping-pong it begins.
pub(super) fn used(series: &Message<'_>) -> (Used, Used) {
    let switches = (series.voluntary_switches_per_op, series.involuntary_switches_per_op);
    let mine = Used { cpu_ns: series.cpu_ns_per_op, switches };
    let Metrics { peer_cpu_ns: cpu_ns, peer_voluntary_switches, peer_involuntary_switches, .. } = *series.metrics;
    let theirs = Used { cpu_ns, switches: (peer_voluntary_switches, peer_involuntary_switches) };
    if series.quantity == Quantity::RoundTrip { (mine, theirs) } else { (theirs, mine) }
}

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traffic {
    pub(super) mode: Mode,
    interval_ns: Option<i64>,
    pair: Option<(u32, u32)>,
    place: Placement,
}

impl Traffic {
    pub(super) fn from_parameters(parameters: &Parameters) -> Self {
        let Parameters { mode, interval_ns, place, .. } = *parameters;
        Self { mode, interval_ns, pair: pair(parameters), place }
    }

    /// The traffic in words, without the place.
    pub(super) fn mode_in_words(&self) -> String {
        let every = || self.interval_ns.map_or(String::new(), units::exact);
        match self.mode {
            Mode::PingPong => "ping-pong: there and back".to_owned(),
            Mode::Saturated => "saturated: one way, as fast as they are taken".to_owned(),
            Mode::Sporadic => format!("sporadic: one way, one every {}", every()),
            Mode::Rate => format!("at a rate: one way, one due every {}", every()),
        }
    }

    pub(super) fn place_in_words(&self) -> String {
        match (self.pair, self.place) {
            (Some((a, b)), _) if a == b => format!("both on CPU {a}"),
            (Some((a, b)), _) => format!("from CPU {a} to CPU {b}"),
            (None, Placement::SameCpu) => "same CPU".to_owned(),
            (None, Placement::TwoCpus) => "two CPUs".to_owned(),
            (None, Placement::AnyCpu) => "any CPU".to_owned(),
        }
    }
}

/// The kind of traffic in a few words.
pub(super) fn brief(parameters: &Parameters) -> String {
    match (parameters.mode, parameters.interval_ns) {
        (Mode::PingPong, _) => "there and back".to_owned(),
        (Mode::Sporadic, Some(ns)) => format!("one every {}", spoken::exact(ns)),
        (Mode::Rate, Some(ns)) => format!("one due every {}", spoken::exact(ns)),
        (mode, _) => mode.to_string(),
    }
}

/// The place in a few words.
pub(super) fn place(parameters: &Parameters) -> &'static str {
    match parameters.place {
        Placement::SameCpu => "one CPU",
        Placement::TwoCpus => "two CPUs",
        Placement::AnyCpu => "any CPU",
    }
}

/// The CPUs themselves, where both processes are pinned.
pub(super) fn cpus(parameters: &Parameters) -> Option<String> {
    let (a, b) = pair(parameters)?;
    Some(if a == b { format!("CPU {a}") } else { format!("CPUs {a} and {b}") })
}

/// The CPUs of sender and receiver, where both are pinned.
pub(super) fn pair(parameters: &Parameters) -> Option<(u32, u32)> {
    parameters.sender_cpu.zip(parameters.receiver_cpu)
}

/// Bytes a second in MB/s (10^6) with three digits.
pub(super) fn megabytes(bytes_per_second: f64) -> String {
    let mb = bytes_per_second / 1e6;
    let decimals = match mb {
        _ if mb >= 99.95 => 0,
        _ if mb >= 9.995 => 1,
        _ if mb >= 0.9995 => 2,
        _ => 3,
    };
    format!("{mb:.decimals$}")
}

/// A size: `64 B`, `16 KiB`, `1 MiB`.
pub(super) fn bytes(size: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{size} B"), |(unit, name)| format!("{} {name}", size / unit))
}

/// What the series of one contest have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Common<'a> {
    pub(super) conditions: &'a str,
    pub(super) size: u64,
    pub(super) place: Placement,
    cpus: (Option<u32>, Option<u32>),
    pub(super) mode: Mode,
    interval_ns: Option<i64>,
}

/// The series of one contest.
#[derive(Debug, Clone)]
pub(super) struct Contest<'a> {
    pub(super) common: Common<'a>,
    pub(super) series: Vec<Message<'a>>,
}

/// The contests of a run, ordered by conditions, size and place.
pub(super) fn contests<'a>(series: &[Message<'a>]) -> Vec<Contest<'a>> {
    let common = |message: &Message<'a>| {
        let asked = message.parameters;
        Common {
            conditions: &message.series.conditions,
            size: asked.size,
            place: asked.place,
            cpus: (asked.sender_cpu, asked.receiver_cpu),
            mode: asked.mode,
            interval_ns: asked.interval_ns,
        }
    };
    let mut all: Vec<Contest<'a>> =
        grouped(series, common).into_iter().map(|(common, series)| Contest { common, series }).collect();
    all.sort_by_key(|contest| contest.common);
    all
}

/// A receiver that sleeps when it waits.
pub(super) fn sleeps(series: &Message<'_>) -> bool {
    series.parameters.receive == Receive::Block
}

/// The series with the smallest median.
pub(super) fn quickest<'a>(list: &[Message<'a>]) -> Option<Message<'a>> {
    list.iter().copied().filter(|message| message.summary.p50.is_some()).min_by_key(|message| message.summary.p50)
}

/// The series with the smallest median, and the effect of taking it instead of each other one.
#[derive(Debug, Clone)]
pub(super) struct Race<'a> {
    pub(super) best: Message<'a>,
    pub(super) others: Vec<(Message<'a>, Effect)>,
}

/// A race for each list that has a median; all are tested together.
pub(super) fn races<'a>(run: &Run, lists: &[Vec<Message<'a>>]) -> Vec<Option<Race<'a>>> {
    let others = |list: &Vec<Message<'a>>, best: &Message<'a>| -> Vec<Message<'a>> {
        let best = std::ptr::from_ref(best.series);
        list.iter().copied().filter(|message| !std::ptr::eq(message.series, best)).collect()
    };
    let fields: Vec<Option<(Message<'a>, Vec<Message<'a>>)>> =
        lists.iter().map(|list| quickest(list).map(|best| (best, others(list, &best)))).collect();
    let against = |(best, others): &'_ (Message<'a>, Vec<Message<'a>>)| -> Vec<[&'a Series; 2]> {
        others.iter().map(|other| [other.series, best.series]).collect()
    };
    let mut effects = at_p50(run, fields.iter().flatten().flat_map(against)).into_iter();
    let mut race = |(best, others): (Message<'a>, Vec<Message<'a>>)| {
        let others = others.into_iter().map(|other| (other, effects.next().unwrap_or_default())).collect();
        Race { best, others }
    };
    fields.into_iter().map(|field| field.map(&mut race)).collect()
}

// Conclusions on messages: the mechanism for small and large messages, for latency and throughput, for a receiver that
// sleeps and for one that spins. A mechanism is called the quickest only if its rounds show it. Kind, place and size of
// messages are put into words here.

/// One thing that the figures show, and the series whose calls belong to it.
type Finding<'a> = (String, Option<&'a Series>);

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
        for (text, best) in findings {
            let code = best.and_then(|best| best.about.call.as_deref()).filter(|call| !calls.contains(call));
            calls.extend(code);
            said.push((heading.clone(), Item { text, code: code.map(str::to_owned), ..Item::default() }));
        }
    }
    let section = |(heading, items): (String, Vec<Item>)| Section::new(heading).with(Block::Items(items));
    gathered(said).into_iter().map(section).collect()
}

/// Of traffic whose latency is not time in a queue.
pub(super) fn lists<'a>(contest: &Contest<'a>) -> [Vec<Message<'a>>; 3] {
    if contest.common.mode == Mode::Saturated {
        return Default::default();
    }
    let (sleeping, spinning): (Vec<_>, Vec<_>) = contest.series.iter().copied().partition(sleeps);
    let both = quickest(&sleeping).into_iter().chain(quickest(&spinning)).collect();
    [sleeping, spinning, both]
}

/// The quickest of those whose receiver sleeps, and the quickest of those that spin.
fn latency<'a>(contest: &Contest<'a>, races: &[Option<Race<'a>>]) -> Vec<Finding<'a>> {
    let [sleeping, spinning, both] = races else { return Vec::new() };
    let parameters = contest.series[0].parameters;
    let what = match parameters.mode {
        Mode::PingPong => brief(parameters),
        _ => format!("one way ({})", brief(parameters)),
    };
    let place = place(parameters);
    let mut findings = Vec::new();
    if let Some(race) = sleeping {
        let who = if spinning.is_none() { "" } else { " with a receiver that sleeps" };
        findings.push((result(race, &format!("{what} on {place}{who}")), Some(race.best.series)));
    }
    if let Some(text) = both.as_ref().and_then(does_not_pay) {
        findings.push((text, None));
    } else if let Some(race) = spinning {
        let what = format!("{what} on {place} with a receiver that polls, which costs it a CPU");
        findings.push((result(race, &what), Some(race.best.series)));
    }
    findings
}

/// Where the quickest that polls is shown to be slower than the quickest that sleeps: the race is of these two.
pub(super) fn does_not_pay(race: &Race<'_>) -> Option<String> {
    let (other, effect) = race.others.first()?;
    let slower = effect.outcome == Outcome::Better && !sleeps(other) && sleeps(&race.best);
    let place = place(other.parameters);
    slower.then(|| format!("Polling does not pay on {place}: it keeps the other process from running."))
}

/// The quickest, those that show no difference from it, and those that were not tested.
fn result(race: &Race<'_>, what: &str) -> String {
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
    let lead = match (race.others.is_empty(), slower.is_empty()) {
        (true, _) => capital,
        (false, false) => format!("Quickest {what}"),
        (false, true) => format!("Lowest median {what}"),
    };
    let others = also([("At p50, no difference is shown from", equal), ("Not tested against", untested)], 4);
    format!("{lead}: {}, {figures}.{others}", name(&race.best))
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
        Some((text, Some(best.series)))
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
