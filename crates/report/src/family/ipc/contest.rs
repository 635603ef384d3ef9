//! Mechanisms against each other. The series differ in mechanism and way of receiving only. The quickest is
//! tested against all others on their rounds.

use punctual_record::Run;
use punctual_record::experiment::ipc::{Mode, Placement, Receive};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{Effect, Figure};
use crate::format::grouped;

use super::traffic::Message;

/// What the series of one contest have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Common<'a> {
    pub(super) conditions: &'a str,
    pub(super) size: u64,
    pub(super) place: Placement,
    cpus: (Option<u32>, Option<u32>),
    pub(super) mode: Mode,
    pub(super) interval_ns: Option<i64>,
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
        let its = message.parameters;
        Common {
            conditions: &message.series.conditions,
            size: its.size,
            place: its.place,
            cpus: (its.sender_cpu, its.receiver_cpu),
            mode: its.mode,
            interval_ns: its.interval_ns,
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
    list.iter().copied().filter(|its| its.summary.p50.is_some()).min_by_key(|its| its.summary.p50)
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
        list.iter().copied().filter(|its| !std::ptr::eq(its.series, best)).collect()
    };
    let fields: Vec<Option<(Message<'a>, Vec<Message<'a>>)>> =
        lists.iter().map(|list| quickest(list).map(|best| (best, others(list, &best)))).collect();
    let pair = |before: &Message<'a>, after: &Message<'a>| Pair {
        before: before.series,
        after: after.series,
        figure: Figure::P50,
    };
    let pairs: Vec<Pair<'a>> =
        fields.iter().flatten().flat_map(|(best, others)| others.iter().map(|other| pair(other, best))).collect();
    let mut effects = test(run, &pairs).into_iter();
    let mut race = |(best, others): (Message<'a>, Vec<Message<'a>>)| {
        let others = others.into_iter().map(|other| (other, effects.next().unwrap_or_default())).collect();
        Race { best, others }
    };
    fields.into_iter().map(|field| field.map(&mut race)).collect()
}
