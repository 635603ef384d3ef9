//! What was counted at each call site between two readings of the table, and the rounds of it as series of the record.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_linux::call_table::{Counted, LOOKS, Totals, bucket, call_name};
use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesId, SeriesTally, Typed, Usage, sanitize};

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

/// More is not counted in years; the numbers come from another process.
const MOST: u64 = 1 << 53;
/// Most samples of a bucket: of all buckets and rounds, the sums of squares are below 2^127.
const MOST_SAMPLES: u64 = 1 << 32;

/// Calls by bucket, and the extremes as far as this stretch of time changed them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Times {
    buckets: BTreeMap<usize, u64>,
    least: Option<u64>,
    most: Option<u64>,
    /// The extremes up to the end of this stretch: the middle of a bucket may lie beyond them.
    bounds: Option<(u64, u64)>,
}

impl Times {
    fn between(before: &[u64], after: &[u64], extremes: [Option<(u64, u64)>; 2]) -> Self {
        let more = |(bucket, after): (usize, &u64)| {
            let count = after.saturating_sub(before.get(bucket).copied().unwrap_or(0)).min(MOST_SAMPLES);
            (count > 0).then_some((bucket, count))
        };
        let [before, now] = extremes;
        Self {
            buckets: after.iter().enumerate().filter_map(more).collect(),
            least: now.map(|extremes| extremes.0).filter(|least| before.is_none_or(|before| *least < before.0)),
            most: now.map(|extremes| extremes.1).filter(|most| before.is_none_or(|before| *most > before.1)),
            bounds: now,
        }
    }

    fn add(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            let sum = self.buckets.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count).min(MOST_SAMPLES);
        }
        self.least = self.least.into_iter().chain(other.least).min();
        self.most = self.most.into_iter().chain(other.most).max();
        let both = self.bounds.zip(other.bounds).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        self.bounds = both.or(self.bounds).or(other.bounds);
    }

    fn count(&self) -> u64 {
        self.buckets.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The middle of each bucket. One sample of the outermost buckets is the exact extreme, if it is of this stretch.
    fn record(&self, recorder: &mut Recorder) {
        let mut buckets = self.buckets.clone();
        for extreme in [self.least, self.most].into_iter().flatten() {
            if let Some(count) = buckets.get_mut(&bucket::number(extreme)).filter(|count| **count > 0) {
                *count -= 1;
                recorder.record(i64::try_from(extreme).unwrap_or(i64::MAX));
            }
        }
        let (least, most) = self.bounds.unwrap_or((0, u64::MAX));
        for (at, count) in buckets {
            let middle = bucket::middle(at).max(least).min(most);
            recorder.record_times(i64::try_from(middle).unwrap_or(i64::MAX), count);
        }
    }

    /// The median: the middle of its bucket.
    fn median(&self, middle: impl Fn(usize) -> u64) -> Option<u64> {
        let half = self.count().div_ceil(2);
        let mut sum = 0_u64;
        self.buckets.iter().find_map(|(at, count)| {
            sum = sum.saturating_add(*count);
            (sum >= half && half > 0).then(|| middle(*at))
        })
    }
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq)]
struct Delta {
    calls: u64,
    /// Calls by their end: nothing found, event, time over, failed.
    ended: [u64; 4],
    waited_ns: u64,
    late_total_ns: u64,
    late: Times,
    took: Times,
    asked: Times,
    cpu_ns: u64,
    cpu_read: u64,
    let_run: u64,
    let_run_read: u64,
}

impl Delta {
    fn between(before: &Counted, after: &Counted) -> Self {
        let less = |field: fn(&Counted) -> u64| field(after).saturating_sub(field(before)).min(MOST);
        let times = |field: fn(&Counted) -> &Vec<u64>, extremes: fn(&Counted) -> Option<(u64, u64)>| {
            Times::between(field(before), field(after), [extremes(before), extremes(after)])
        };
        Self {
            calls: less(|counts| counts.calls),
            ended: std::array::from_fn(|how| after.ended[how].saturating_sub(before.ended[how]).min(MOST)),
            waited_ns: less(|counts| counts.waited_ns),
            late_total_ns: less(|counts| counts.late_sum_ns),
            late: times(|counts| &counts.late, |counts| counts.late_extremes),
            took: times(|counts| &counts.took, |counts| counts.took_extremes),
            asked: times(|counts| &counts.asked, |counts| counts.asked_extremes),
            cpu_ns: less(|counts| counts.cpu_ns),
            cpu_read: less(|counts| counts.cpu_read),
            let_run: less(|counts| counts.let_run),
            let_run_read: less(|counts| counts.let_run_read),
        }
    }

    /// Adds another: a later stretch, or another call site of the same name.
    fn add(&mut self, other: &Self) {
        let sum = |mine: &mut u64, more: u64| *mine = mine.saturating_add(more).min(MOST);
        sum(&mut self.calls, other.calls);
        self.ended.iter_mut().zip(other.ended).for_each(|(mine, more)| sum(mine, more));
        sum(&mut self.waited_ns, other.waited_ns);
        sum(&mut self.late_total_ns, other.late_total_ns);
        self.late.add(&other.late);
        self.took.add(&other.took);
        self.asked.add(&other.asked);
        sum(&mut self.cpu_ns, other.cpu_ns);
        sum(&mut self.cpu_read, other.cpu_read);
        sum(&mut self.let_run, other.let_run);
        sum(&mut self.let_run_read, other.let_run_read);
    }

    fn is_empty(&self) -> bool {
        self.calls == 0 && self.ended == [0; 4]
    }

    /// The mean CPU time of a call, from those in which it was read.
    fn cpu_ns_per_call(&self) -> Option<f64> {
        (self.cpu_read > 0).then(|| self.cpu_ns as f64 / self.cpu_read as f64)
    }

    /// The share of yields during which another thread ran.
    fn let_run_share(&self) -> Option<f64> {
        (self.let_run_read > 0).then(|| (self.let_run as f64 / self.let_run_read as f64).min(1.0))
    }

    /// The median of the time asked, within its extremes: exact where all asked the same.
    fn asked_p50_ns(&self) -> Option<u64> {
        // Four buckets of other times are one of these.
        let middle = |at: usize| (bucket::middle(at * 4 + 1) + bucket::middle(at * 4 + 2)) / 2;
        let median = self.asked.median(middle)?;
        let median = self.asked.most.map_or(median, |most| median.min(most));
        Some(self.asked.least.map_or(median, |least| median.max(least)))
    }
}

// The rounds of an observed run: what was counted in consecutive stretches of time. Their scatter is the noise of a comparison.
//
// A stretch is short at first. When there are many, two become one, and the next ones last twice as long. So short programs have rounds
// too, and long ones have few.

/// The first stretches.
const SHORTEST: Duration = Duration::from_millis(25);
/// Most rounds.
const MOST_ROUNDS: usize = 32;

/// What was counted in one stretch, by the entry's place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Round {
    /// Since the program was started.
    began: Duration,
    deltas: BTreeMap<usize, Delta>,
}

/// The rounds so far.
#[derive(Debug)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    last: Totals,
    last_at: Duration,
    length: Duration,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self { rounds: Vec::new(), last: Totals::default(), last_at: Duration::ZERO, length: SHORTEST }
    }

    /// Until the next reading.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Takes what was counted by now.
    pub(super) fn take(&mut self, totals: Totals, at: Duration) {
        let none = Counted::default();
        let mut deltas = BTreeMap::new();
        for (place, after) in totals.entries.iter().enumerate() {
            let delta = Delta::between(self.last.entries.get(place).unwrap_or(&none), after);
            if !delta.is_empty() {
                deltas.insert(place, delta);
            }
        }
        self.rounds.push(Round { began: self.last_at, deltas });
        (self.last, self.last_at) = (totals, at);
        if self.rounds.len() > MOST_ROUNDS {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.length = self.length.saturating_mul(2);
        let all = std::mem::take(&mut self.rounds);
        for pair in all.chunks(2) {
            let mut round = pair[0].clone();
            for (place, delta) in pair[1..].iter().flat_map(|next| &next.deltas) {
                round.deltas.entry(*place).or_default().add(delta);
            }
            self.rounds.push(round);
        }
    }

    /// The last reading, and the rounds in which something was counted.
    pub(super) fn end(self) -> (Totals, Vec<Round>) {
        let rounds = self.rounds.into_iter().filter(|round| !round.deltas.is_empty()).collect();
        (self.last, rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lateness as the library counts it.
    fn counted(late: &[u64]) -> Counted {
        let mut all = vec![0; bucket::COUNT];
        late.iter().for_each(|ns| all[bucket::number(*ns)] += 1);
        let extremes = late.iter().min().copied().zip(late.iter().max().copied());
        let asked = vec![0; bucket::COUNT.div_ceil(4)];
        Counted { late: all, late_extremes: extremes, asked, calls: late.len() as u64, ..Counted::default() }
    }

    fn summary(times: &Times) -> punctual_record::Summary {
        let mut recorder = Recorder::new();
        times.record(&mut recorder);
        recorder.summary()
    }

    #[test]
    fn extremes_stay_exact_and_percentiles_are_within_a_bucket() {
        let late: Vec<u64> = (0..1000).map(|n| 50_000 + n * 37).collect();
        let summary = summary(&Delta::between(&Counted::default(), &counted(&late)).late);
        assert_eq!((summary.count, summary.min, summary.max), (1000, Some(50_000), Some(86_963)));
        let p50 = summary.p50.unwrap() as f64;
        assert!((p50 / 68_463.0 - 1.0).abs() <= 0.016, "{p50}");
    }

    #[test]
    fn an_extreme_of_an_earlier_stretch_is_not_repeated() {
        let (before, after) = (counted(&[1_000, 9_000]), counted(&[1_000, 9_000, 5_000]));
        let first = Delta::between(&Counted::default(), &before);
        let second = Delta::between(&before, &after);
        assert_eq!((summary(&second.late).count, second.calls), (1, 1));
        assert!((summary(&second.late).max.unwrap() - 5_000).abs() < 80);
        let mut both = first;
        both.add(&second);
        assert_eq!(both, Delta::between(&Counted::default(), &after));
    }

    #[test]
    fn the_time_asked_is_exact_where_all_ask_the_same() {
        let mut counted = counted(&[5]);
        counted.asked[bucket::number(1_000_000) / 4] = 3;
        counted.asked_extremes = Some((1_000_000, 1_000_000));
        let asked = |counted: &Counted| Delta::between(&Counted::default(), counted).asked_p50_ns();
        assert_eq!(asked(&counted), Some(1_000_000));
        counted.asked[bucket::number(2_000_000) / 4] = 30;
        counted.asked_extremes = Some((1_000_000, 2_500_000));
        assert!((asked(&counted).unwrap() as f64 / 2_000_000.0 - 1.0).abs() < 0.0626);
        assert_eq!(asked(&Counted::default()), None);
    }

    #[test]
    fn any_numbers_are_added_up() {
        let most = Counted {
            calls: u64::MAX,
            ended: [u64::MAX; 4],
            late: vec![u64::MAX; bucket::COUNT],
            took: vec![u64::MAX; 5_000],
            asked: vec![u64::MAX; 5_000],
            late_extremes: Some((u64::MAX, u64::MAX)),
            cpu_ns: u64::MAX,
            ..Counted::default()
        };
        let mut delta = Delta::between(&Counted::default(), &most);
        delta.add(&delta.clone());
        assert!(summary(&delta.late).count > 0 && delta.asked_p50_ns().is_some());
        assert_eq!(Delta::between(&most, &Counted::default()).calls, 0, "counters that go back");
    }

    fn totals(calls: u64) -> Totals {
        let entry = Counted { calls, ended: [0, calls, 0, 0], ..Counted::default() };
        Totals { attached: 1, uncounted: 0, entries: vec![entry] }
    }

    #[test]
    fn rounds_stay_few_and_lose_nothing() {
        let mut rounds = Rounds::new();
        for n in 1..=300_u32 {
            let length = rounds.length();
            rounds.take(totals(u64::from(n) * 3), length * n);
            assert!(rounds.rounds.len() <= MOST_ROUNDS);
        }
        assert!(rounds.length() > SHORTEST * 16);
        let (last, rounds) = rounds.end();
        assert_eq!(last.entries[0].calls, 900);
        assert_eq!(rounds.iter().map(|round| round.deltas[&0].calls).sum::<u64>(), 900);
        assert!(rounds.windows(2).all(|two| two[0].began < two[1].began));
    }

    #[test]
    fn a_stretch_without_calls_is_no_round() {
        let mut rounds = Rounds::new();
        for (n, calls) in (1..).zip([0, 5, 5, 7]) {
            rounds.take(totals(calls), SHORTEST * n);
        }
        let counted: Vec<u64> = rounds.end().1.iter().map(|round| round.deltas[&0].calls).collect();
        assert_eq!(counted, [5, 2]);
    }
}
