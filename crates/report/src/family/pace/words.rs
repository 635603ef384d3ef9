//! What is said of the methods at one rate: which are least late, which is cheapest, and how many events a sleep lets through.

use punctual_record::experiment::pace::{Metrics, Parameters};
use punctual_record::{Run, Series};

use crate::evidence::{Figure, Outcome, rounds};
use crate::family::shared::Measured;
use crate::format::naming::AS_FOUND;
use crate::format::{listed, spoken, unbroken, units};

pub(in crate::family) type Paced<'a> = Measured<'a, Parameters, Metrics>;

/// What a run was to do: rate, and where to.
pub(super) type Task = (u64, String);

pub(super) fn task(series: &Paced<'_>) -> Task {
    let Parameters { rate_per_second, to, size, .. } = series.parameters;
    let size = size.map_or(String::new(), |size| format!(", {size} bytes each"));
    (rate_per_second.to_bits(), format!("{}{size}", to.as_deref().unwrap_or_default()))
}

/// How much later departures get, in ppm, and its 95 % interval.
pub(super) fn drift(metrics: &Metrics) -> Option<(f64, Option<(f64, f64)>)> {
    let between = metrics.drift_ppm_low.zip(metrics.drift_ppm_high);
    metrics.drift_ppm.map(|ppm| (ppm, between))
}

/// Whether the departures of these are on different clocks: then their lateness is not comparable.
pub(super) fn clocks_differ(all: &[Paced<'_>]) -> bool {
    let mut clocks = all.iter().filter(|s| s.metrics.events.is_some()).map(|s| s.metrics.departure);
    let first = clocks.next();
    clocks.any(|clock| Some(clock) != first)
}

/// Whether the rate reached is within 1 % of the one asked.
fn holds(s: &Paced<'_>) -> bool {
    s.metrics.rate_share.is_some_and(|share| (share - 1.0).abs() <= 0.01)
}

/// `hybrid`, `hybrid (SCHED_FIFO 40)`.
pub(super) fn name(s: &Series) -> String {
    match s.conditions.clone() {
        conditions if conditions == AS_FOUND || conditions.is_empty() => s.subject.clone(),
        conditions => format!("{} ({})", s.subject, unbroken(&conditions)),
    }
}

/// `spin (54.0 µs at p99, 99 % of a CPU)`.
fn say(s: &Series) -> String {
    let late = unbroken(&format!("{} at p99", units::known(s.summary.p99)));
    let cpu = s.cpu_share.map_or(String::new(), |share| unbroken(&format!(", {} of a CPU", units::share(share))));
    format!("{} ({late}{cpu})", name(s))
}

/// Which method keeps the rate best, which is cheapest, and which is slowest; each with the method that it names.
pub(super) fn kept(run: &Run, rate: f64, rows: &[Paced<'_>]) -> Vec<(String, Option<String>)> {
    let held: Vec<Paced<'_>> = rows.iter().filter(|s| holds(s)).copied().collect();
    let mut sentences = Vec::new();
    if held.is_empty() && !rows.is_empty() {
        sentences.push(("No method held the rate within 1 %.".to_owned(), None));
    }
    let best = least_late(run, &held);
    let cheapest = held
        .iter()
        .filter(|s| s.cpu_share.is_some())
        .min_by(|a, b| f64::total_cmp(&a.cpu_share.unwrap_or(2.0), &b.cpu_share.unwrap_or(2.0)));
    let known = best.as_ref().map(|(_, names)| names.clone()).unwrap_or_default();
    sentences.extend(best.map(|(text, names)| (text, names.into_iter().next())));
    if let Some(cheapest) = cheapest.filter(|c| held.len() > 1 && known.first() != Some(&name(c))) {
        sentences.push((format!("Cheapest of them: {}.", say(cheapest)), Some(name(cheapest))));
    }
    let slowest = rows.iter().filter_map(|s| Some((median_rate(s)?, s))).min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((reached, series)) = slowest.filter(|(reached, _)| *reached < rate * 0.99) {
        let text = format!(
            "Slowest: {}, with {} of {} a second.",
            name(series),
            unbroken(&units::rate(reached)),
            unbroken(&units::rate(rate))
        );
        sentences.push((text, Some(name(series))));
    }
    sentences
}

/// The least late at p99 by the same clock, and those that are not shown to be later. It also returns all their names.
fn least_late(run: &Run, held: &[Paced<'_>]) -> Option<(String, Vec<String>)> {
    let p99 = |s: &&Paced<'_>| s.summary.p99.or(s.summary.max).unwrap_or(i64::MAX);
    // The clock of most of them.
    let of = |clock| held.iter().filter(|s| s.metrics.departure == clock).count();
    let clock = held.iter().map(|s| s.metrics.departure).max_by_key(|&clock| of(clock))?;
    let like = |s: &&Paced<'_>| clock.is_some() && s.metrics.departure == clock;
    let best = held.iter().filter(like).min_by_key(p99)?;
    let rivals: Vec<&Paced<'_>> = held.iter().filter(like).filter(|s| !std::ptr::eq(s.series, best.series)).collect();
    let (after, figure) = (best.series, Figure::P99);
    let pairs: Vec<_> = rivals.iter().map(|rival| rounds::Pair { before: rival.series, after, figure }).collect();
    let effects = rounds::test(run, &pairs);
    let which = |outcome: Outcome| -> Vec<String> {
        let matching = rivals.iter().zip(&effects).filter(|(_, effect)| effect.outcome == outcome);
        matching.map(|(s, _)| name(s)).collect()
    };
    let (ties, untested) = (which(Outcome::NoDifference), which(Outcome::NotTested));
    let mut text = match rivals.is_empty() {
        true => format!("Held the rate within 1 %: {}", say(best)),
        false => format!("Least late of those that held the rate within 1 %: {}", say(best)),
    };
    for (said, names) in [("no difference shown from", &ties), ("not tested against", &untested)] {
        if !names.is_empty() {
            text.push_str(&format!("; {said} {}", listed(names, 4)));
        }
    }
    let others: Vec<String> = held.iter().filter(|s| !like(s)).map(|s| name(s)).collect();
    if !others.is_empty() {
        text.push_str(&format!("; not comparable, by another clock: {}", listed(&others, 4)));
    }
    Some((format!("{text}."), [vec![name(best)], ties].concat()))
}

/// Exact in the long run: within this many ppm. A crystal is off by more.
const EXACT_PPM: f64 = 10.0;

/// Which methods surely keep the rate in the long run.
fn exact(rows: &[Paced<'_>]) -> Option<String> {
    let is_exact = |s: &Paced<'_>| {
        let between = drift(s.metrics).and_then(|(_, between)| between);
        between.is_some_and(|(low, high)| low >= -EXACT_PPM && high <= EXACT_PPM)
    };
    // Under whatever conditions it was measured.
    let always = |s: &&Paced<'_>| rows.iter().filter(|other| other.subject == s.subject).all(is_exact);
    let mut exact: Vec<String> = rows.iter().filter(always).map(|s| s.subject.clone()).collect();
    exact.sort();
    exact.dedup();
    if exact.is_empty() {
        return None;
    }
    let within = unbroken(&format!("{EXACT_PPM} ppm"));
    Some(format!("Exact in the long run, to within {within}: {}.", listed(&exact, exact.len())))
}

/// Which methods are exact in the long run, and whether every datagram arrived.
pub(super) fn long_run(rows: &[Paced<'_>]) -> Vec<String> {
    let mut sentences: Vec<String> = exact(rows).into_iter().collect();
    let sum = |of: fn(&Metrics) -> Option<u64>| rows.iter().filter_map(|s| of(s.metrics)).fold(0, u64::saturating_add);
    let (lost, reordered) = (sum(|metrics| metrics.lost), sum(|metrics| metrics.reordered));
    if rows.iter().any(|s| s.metrics.lost.is_some()) {
        sentences.push(match (lost, reordered) {
            (0, 0) => "Every datagram sent arrived, in order.".to_owned(),
            (lost, reordered) => {
                format!("{} datagrams were lost, {} arrived out of order.", units::count(lost), units::count(reordered))
            }
        });
    }
    sentences
}

/// The rate of the median trial.
pub(super) fn median_rate(s: &Paced<'_>) -> Option<f64> {
    s.metrics.rate_p50.or(s.metrics.rate_reached)
}

/// The rate of the median trial with its interval: `12 100 [12 050 12 140]`.
pub(super) fn usual_rate(s: &Paced<'_>) -> Option<String> {
    // Below ten a second decimals matter.
    let shown = |rate: f64| units::rate(if rate < 10.0 { rate } else { rate.round() });
    let reached = median_rate(s)?;
    let between = s.metrics.rate_p50_low.zip(s.metrics.rate_p50_high);
    let between = between.map_or(String::new(), |(low, high)| format!(" [{} {}]", shown(low), shown(high)));
    Some(unbroken(&format!("{}{between}", shown(reached))))
}

/// How many events a second one thread reaches with a sleep between. The sleep is the shortest, or lasts the whole
/// period.
pub(super) fn ceiling(rate: f64, rows: &[Paced<'_>]) -> Option<String> {
    let slow = |s: &&Paced<'_>| s.metrics.rate_share.is_some_and(|share| share < 0.99);
    // Since Linux 7.2 a sleep of 1 ns returns without giving up the CPU, which is no sleep.
    let slept = |s: &&Paced<'_>| s.voluntary_switches_per_op.is_none_or(|switches| switches >= 0.01);
    // Those that reach the rate do not show their limit.
    let find = |subjects: [&str; 2]| {
        let row = |subject: &str| rows.iter().find(|s| s.subject == subject).filter(slept);
        subjects.into_iter().find_map(row).filter(slow)
    };
    let shortest = find(["nanosleep_1ns", "usleep_1us"]).and_then(|s| Some((s, usual_rate(s)?)));
    let whole = find(["nanosleep", "usleep"]).and_then(|s| Some((s, usual_rate(s)?)));
    let period = spoken::duration(1e9 / rate);
    let lead = "With a sleep between events one thread reaches";
    let whole = whole.map(|(s, rate)| (name(s), rate));
    match (shortest.map(|(s, rate)| (name(s), rate)), whole) {
        (Some((a, most)), Some((b, few))) => {
            Some(format!("{lead} {most} a second by {a}. Where it sleeps the whole {period}, it reaches {few} by {b}."))
        }
        (Some((a, most)), None) => Some(format!("{lead} {most} a second by {a}.")),
        (None, Some((b, few))) => Some(format!("{lead} {few} a second by {b}, which sleeps the whole {period}.")),
        (None, None) => None,
    }
}
