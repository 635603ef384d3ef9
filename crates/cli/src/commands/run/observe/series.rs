//! What was counted as series of the record: a call site by its name, its rounds and its figures.

use std::collections::BTreeMap;

use punctual_linux::call_table::{Counted, LOOKS, call_name};
use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesId, SeriesTally, Typed, Usage, sanitize};

use super::delta::{Delta, Round, Times};

/// Most characters of a program's name.
const LONGEST: usize = 40;

/// A call site: entries of the same name are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    program: String,
    call: &'static str,
    site: String,
}

/// The rounds of a call site: calls that wait, and calls that only look.
#[derive(Debug, Default)]
struct Site {
    waits: BTreeMap<usize, Delta>,
    looks: BTreeMap<usize, Delta>,
}

/// The series of all call sites, those that lose most time first.
pub(super) fn counted(entries: &[Counted], names: &[String], rounds: &[Round], conditions: &str) -> Vec<Series> {
    let mut sites: BTreeMap<Key, Site> = BTreeMap::new();
    for (number, round) in rounds.iter().enumerate() {
        for (place, delta) in &round.deltas {
            let Some((entry, name)) = entries.get(*place).zip(names.get(*place)) else { continue };
            let Some(key) = key(entry, name) else { continue };
            let site = sites.entry(key).or_default();
            let kind = if entry.call & LOOKS == 0 { &mut site.waits } else { &mut site.looks };
            kind.entry(number).or_default().add(delta);
        }
    }
    let mut recorder = Recorder::new();
    let mut all: Vec<(u64, Vec<Series>)> = sites
        .iter()
        .map(|(key, site)| (total(&site.waits).late_total_ns, series(key, site, rounds, conditions, &mut recorder)))
        .collect();
    all.sort_by_key(|(lost_ns, _)| std::cmp::Reverse(*lost_ns));
    all.into_iter().flat_map(|(_, series)| series).collect()
}

fn key(entry: &Counted, name: &str) -> Option<Key> {
    let program = sanitize::line(&String::from_utf8_lossy(&entry.program), LONGEST);
    Some(Key { program, call: call_name(entry.call & !LOOKS)?, site: name.to_owned() })
}

fn total(rounds: &BTreeMap<usize, Delta>) -> Delta {
    rounds.values().fold(Delta::default(), |mut sum, delta| {
        sum.add(delta);
        sum
    })
}

/// What a series is of: its quantity, the rounds, and their samples.
type Samples<'a> = (Quantity, &'a BTreeMap<usize, Delta>, fn(&Delta) -> &Times);

/// Up to three series; the first has the metrics. A call site without any sample has one of `away`.
fn series(key: &Key, site: &Site, rounds: &[Round], conditions: &str, recorder: &mut Recorder) -> Vec<Series> {
    let (waits, looks) = (total(&site.waits), total(&site.looks));
    let mut quantities: Vec<Samples<'_>> = Vec::new();
    if waits.late.count() > 0 {
        quantities.push((Quantity::Lateness, &site.waits, |delta| &delta.late));
    }
    if waits.took.count() > 0 || looks.took.count() == 0 && quantities.is_empty() {
        quantities.push((Quantity::Away, &site.waits, |delta| &delta.took));
    }
    if looks.took.count() > 0 {
        quantities.push((Quantity::CallCost, &site.looks, |delta| &delta.took));
    }
    let mut all: Vec<Series> = Vec::new();
    for (quantity, deltas, times) in quantities {
        let mut tally = SeriesTally::new();
        for (number, delta) in deltas.iter().filter(|(_, delta)| times(delta).count() > 0) {
            recorder.clear();
            times(delta).record(recorder);
            let cpu_ns = delta.cpu_ns_per_call().map(|ns| (ns * recorder.count() as f64).round() as u64);
            let began_ns = rounds.get(*number).map_or(0, |round| round.began.as_nanos() as u64);
            tally.add_round(
                u32::try_from(*number).unwrap_or(u32::MAX),
                began_ns,
                recorder,
                Usage { cpu_ns, ..Usage::default() },
            );
        }
        let parameters = Parameters { program: key.program.clone(), site: key.site.clone() };
        let metrics = if all.is_empty() { metrics(&waits, &looks) } else { Metrics::default() };
        let series = tally.to_series(SeriesId {
            experiment: Experiment::Calls(Typed { parameters, metrics }),
            subject: key.call.to_owned(),
            about: About { call: Some(format!("{}()", key.call)), ..About::default() },
            conditions: conditions.to_owned(),
            quantity,
        });
        // A round may lack a reading of CPU time.
        let kind = if quantity == Quantity::CallCost { &looks } else { &waits };
        all.push(Series { cpu_ns_per_op: kind.cpu_ns_per_call(), ..series });
    }
    all
}

fn metrics(waits: &Delta, looks: &Delta) -> Metrics {
    let both = |count: fn(&Delta) -> u64| Some(count(waits).saturating_add(count(looks)));
    Metrics {
        calls: both(|counts| counts.calls),
        nothing: both(|counts| counts.ended[0]),
        events: both(|counts| counts.ended[1]),
        expired: both(|counts| counts.ended[2]),
        failed: both(|counts| counts.ended[3]),
        asked_p50_ns: waits.asked_p50_ns().and_then(|ns| i64::try_from(ns).ok()),
        late_total_ns: Some(waits.late_total_ns),
        waited_ns: Some(waits.waited_ns),
        let_run_share: looks.let_run_share(),
    }
}
