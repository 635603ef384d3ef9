//! Why threads woke up late, on both sides: the time lost to each cause per wake-up, and whether it differs, as data, in
//! words and as a table.
//!
//! The noise comes from consecutive stretches of a run, and from several runs where there are some. Nothing below it is
//! a difference. The tests are corrected for their number. Causes that only one side has recorded are not compared.

use std::collections::BTreeSet;

use punctual_record::experiment::cyclic::is_of;
use punctual_record::{Cause, Experiment, LatePart};
use serde::Serialize;

use crate::compare::outcome::{Range, Verdict};
use crate::compare::side::{Blamed, Call, Key, Lost, Recorded, Side, Unmatched};
use crate::document::{Block, Column, Columns, Note, Section};
use crate::evidence::difference::{self, InRun, corrected};
use crate::evidence::{Draft, LEVEL, Shift};
use crate::format::units;

/// From this share of a change on, a culprit is named for it.
const MOST: f64 = 0.5;

/// The causes of two sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CausesCompared {
    /// Why something is not compared, in a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// How many causes could be compared: the verdicts are corrected for it.
    pub compared: usize,
    /// The causes of the calls that both sides have.
    pub causes: Vec<CauseComparison>,
    /// Whether all runs were measured in virtual machines.
    #[serde(skip)]
    pub(super) guest: bool,
}

/// A cause of a call on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseComparison {
    /// The threads.
    pub thread: String,
    /// The system call.
    pub call: String,
    /// Nominal wait, where it was one of our own series, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal_ns: Option<u64>,
    /// The part of the lateness.
    pub part: LatePart,
    /// The cause.
    pub cause: Cause,
    /// Who or what, where most of the difference is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// The verdict: worse is more time.
    pub verdict: Verdict,
    /// Time lost per wake-up on the old side; of several runs the mean.
    pub old_ns: f64,
    /// On the new side.
    pub new_ns: f64,
    /// New minus old; absent where it could not be tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_ns: Option<Range>,
}

/// The causes of both sides; `None` where neither has any. `unmatched`: of series that are not compared, the causes are not either.
pub(super) fn compared(
    old: &Side,
    new: &Side,
    pairs: Option<&[(usize, usize)]>,
    unmatched: &[Unmatched],
) -> Option<CausesCompared> {
    let not_compared = match (old.causes.is_empty(), new.causes.is_empty()) {
        (true, true) => return None,
        (true, false) => Some("Causes are not recorded in the old runs."),
        (false, true) => Some("Causes are not recorded in the new runs."),
        _ if unseen(old) != unseen(new) => {
            Some("Causes are not compared: what could not be seen differs between the sides.")
        }
        _ => None,
    };
    if let Some(why) = not_compared {
        return Some(CausesCompared { not_compared: vec![why.to_owned()], ..CausesCompared::default() });
    }
    let [in_old, in_new] =
        [old, new].map(|side| side.causes.iter().flat_map(|recorded| recorded.calls.keys()).collect::<BTreeSet<_>>());
    let cyclic = || unmatched.iter().filter(|series| series.experiment == Experiment::CYCLIC);
    let is_apart = |call: &&Call| cyclic().any(|series| is_of(&call.thread, &series.subject));
    let (apart, both): (Vec<&Call>, Vec<&Call>) = in_old.intersection(&in_new).copied().partition(is_apart);
    let one = in_old.symmetric_difference(&in_new).count();
    let rows: Vec<Row<'_>> = both.iter().flat_map(|call| rows(Pair { old, new, pairs, call })).collect();
    let drafts: Vec<Option<Draft>> =
        rows.iter().map(|row| row.pair.draft(&|blamed| blamed.causes.get(&row.key))).collect();
    let shifts = difference::settled(drafts.iter().map(Option::as_ref));
    let corrected = corrected(shifts.iter().map(|shift| Some(shift.as_ref()?.probability())));
    let significant = shifts.iter().zip(&corrected.significant);
    let causes =
        rows.iter().zip(significant).map(|(row, (shift, shown))| row.compared(shift.as_ref(), *shown)).collect();
    let mut not_compared: Vec<String> = match one {
        0 => Vec::new(),
        1 => vec!["1 call is recorded on one side only.".to_owned()],
        n => vec![format!("{n} calls are recorded on one side only.")],
    };
    if !apart.is_empty() {
        not_compared.push("Causes of wake-ups that are not comparable are not compared.".to_owned());
    }
    let guest = old.hosts().chain(new.hosts()).all(|host| host.hypervisor.is_some());
    Some(CausesCompared { not_compared, compared: corrected.tested, causes, guest })
}

/// What no run of a side could see, and what some could not.
fn unseen(side: &Side) -> BTreeSet<&BTreeSet<String>> {
    side.causes.iter().map(|recorded| &recorded.unseen).collect()
}

/// A call that both sides have.
#[derive(Clone, Copy)]
struct Pair<'a> {
    old: &'a Side,
    new: &'a Side,
    pairs: Option<&'a [(usize, usize)]>,
    call: &'a Call,
}

struct Row<'a> {
    pair: Pair<'a>,
    key: Key,
}

/// A row for each cause that either side has.
fn rows(pair: Pair<'_>) -> impl Iterator<Item = Row<'_>> {
    let keys_of = |side: &Side| {
        blamed(side, pair.call).flat_map(|(_, blamed)| blamed.causes.keys().copied()).collect::<BTreeSet<Key>>()
    };
    let keys: Vec<Key> = keys_of(pair.old).union(&keys_of(pair.new)).copied().collect();
    keys.into_iter().map(move |key| Row { pair, key })
}

/// The call in the runs of a side that have it.
fn blamed<'a>(side: &'a Side, call: &'a Call) -> impl Iterator<Item = (usize, &'a Blamed)> {
    side.causes.iter().filter_map(|recorded: &Recorded| Some((recorded.run, recorded.calls.get(call)?)))
}

/// Takes a time of a call.
type LostTime<'f> = &'f dyn Fn(&Blamed) -> Option<&Lost>;

impl Pair<'_> {
    fn draft(&self, time: LostTime<'_>) -> Option<Draft> {
        let [old, new] = [self.old, self.new].map(|side| {
            let reading = |(run, blamed): (usize, &Blamed)| {
                Some(InRun { run, reading: blamed.reading(time(blamed))?, places: None })
            };
            blamed(side, self.call).filter_map(reading).collect::<Vec<_>>()
        });
        difference::between(&old, &new, self.pairs)
    }

    fn mean(&self, side: &Side, time: LostTime<'_>) -> f64 {
        let all: Vec<f64> =
            blamed(side, self.call).map(|(_, blamed)| time(blamed).map_or(0.0, |lost| lost.each_ns)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

impl Row<'_> {
    fn compared(&self, shift: Option<&Shift>, shown: bool) -> CauseComparison {
        let time: LostTime<'_> = &|blamed| blamed.causes.get(&self.key);
        let range = |shift: &Shift| {
            let reach = shift.reach(LEVEL);
            Range { value: shift.by, low: shift.by - reach, high: shift.by + reach }
        };
        CauseComparison {
            thread: self.pair.call.thread.clone(),
            call: self.pair.call.name.clone(),
            nominal_ns: self.pair.call.nominal_ns,
            part: self.key.0,
            cause: self.key.1,
            culprit: shift.filter(|_| shown).and_then(|shift| self.culprit(shift.by)),
            verdict: Verdict::judged(shift, shown),
            old_ns: self.pair.mean(self.pair.old, time),
            new_ns: self.pair.mean(self.pair.new, time),
            by_ns: shift.map(range),
        }
    }

    /// The culprit of most of the change, if its own time is shown to differ.
    fn culprit(&self, by: f64) -> Option<String> {
        let Pair { old, new, call, .. } = self.pair;
        let culprits = |side| blamed(side, call).flat_map(|(_, blamed)| blamed.culprits.keys());
        let names: BTreeSet<&String> =
            culprits(old).chain(culprits(new)).filter(|(key, _)| *key == self.key).map(|(_, name)| name).collect();
        names.into_iter().find_map(|name| {
            let key = (self.key, name.clone());
            let draft = self.pair.draft(&|blamed| blamed.culprits.get(&key))?;
            let shift = difference::settled([Some(&draft)].into_iter()).pop()??;
            let is_most = shift.by / by >= MOST && shift.probability() <= LEVEL;
            is_most.then(|| name.clone())
        })
    }
}

/// Most sentences, and most rows.
const SENTENCES: usize = 4;

const ROWS: usize = 300;

/// `redis-server, epoll_wait: +8.00 µs a wake-up in the run queue (95 %: +6.10 µs to +9.90 µs): kworker/1:2 ran.`
pub(super) fn sentences(compared: &CausesCompared) -> Vec<String> {
    let mut shown: Vec<&CauseComparison> = compared.causes.iter().filter(|cause| cause.verdict.is_shown()).collect();
    let size = |cause: &CauseComparison| cause.by_ns.map_or(0.0, |by| by.value.abs());
    shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let sentence = |cause: &&CauseComparison| {
        let Range { value, low, high } = cause.by_ns?;
        let [by, low, high] = [value, low, high].map(units::signed);
        let interval = format!("95 %: {low} to {high}");
        Some(format!(
            "{}: {by} a wake-up, {} ({interval}): {}.",
            name(cause),
            crate::causes::part(cause.part),
            label(cause, compared)
        ))
    };
    shown.iter().take(SENTENCES).filter_map(sentence).chain(compared.not_compared.iter().cloned()).collect()
}

pub(super) fn name(cause: &CauseComparison) -> String {
    crate::causes::call(&cause.thread, &cause.call, cause.nominal_ns)
}

fn label(cause: &CauseComparison, compared: &CausesCompared) -> String {
    crate::causes::label(cause.cause, cause.culprit.as_deref(), compared.guest)
}

/// The section; `None` without rows.
pub(super) fn section(compared: &CausesCompared) -> Option<Section> {
    if compared.causes.is_empty() {
        return None;
    }
    let columns = Columns::new()
        .left("call", Column::ALWAYS, |cause: &&CauseComparison| name(cause))
        .left("part", 30, |cause| crate::causes::part(cause.part).to_owned())
        .left("lost to", Column::ALWAYS, |cause| label(cause, compared))
        .fine("old", Column::ALWAYS, |cause| Some(cause.old_ns))
        .fine("new", Column::ALWAYS, |cause| Some(cause.new_ns))
        .known("change", Column::ALWAYS, |cause| cause.by_ns, |by| units::signed(by.value))
        .known("95 %", 40, |cause| cause.by_ns, |by| format!("{} to {}", units::signed(by.low), units::signed(by.high)))
        .left("verdict", 20, |cause| word(cause.verdict).to_owned());
    let mut rows: Vec<&CauseComparison> = compared.causes.iter().collect();
    rows.sort_by_key(|cause| !cause.verdict.is_shown());
    rows.truncate(ROWS);
    let notes = vec![
        Note::always("Time lost per wake-up; the causes of a call add up to its lateness."),
        Note::always(format!(
            "The scatter between stretches of a run is the noise; the verdicts are corrected for {} causes.",
            units::count(compared.compared as u64)
        )),
    ];
    Some(Section::new("Why late").with(Block::Table(columns.plain(&rows))).with(Block::Legend(notes)))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "more",
        Verdict::Better => "less",
        Verdict::NoDifference => "no difference shown",
        Verdict::NotComparable => "too few wake-ups",
    }
}
