//! What a thread does where nothing takes its time: it is on time, computes, or waits for input.

use std::collections::BTreeMap;

use punctual_record::{Budget, Loss, LossKind, LossPlace, Spent, ThreadBudget, TimePart, Who};

use super::kinds::{Facts, QUEUED};
use super::runtime;
use super::sort::{Found, healthy, share, spent};
use super::waits::is_from_own;

/// Fewer turns show no habit.
const TURNS: u64 = 5;
/// A thread is on time while it misses at most one turn in this number.
const MISSED: u64 = 50;
/// A thread that is late by less than this share of the run at its worst is on time.
const LATE: f64 = 0.01;
/// A loss leads from these shares of the run on: where all deadlines are met, where the thread or those of its own that it waits for have work,
/// and where it waits for others. Time in the queue of a CPU, which others share with it, has shares of its own.
const MET: f64 = 0.10;
const MET_QUEUED: f64 = 0.33;
const COMPUTING: f64 = 0.03;
const COMPUTING_QUEUED: f64 = 0.10;
const WAITING: f64 = 0.02;
/// A wait that may be for work leads before one for input from this part of it on.
const OF_INPUT: u64 = 10;
/// A thread that runs for so much of the run computes.
const MOSTLY: f64 = 0.5;
/// Waits for input end by time-outs where these take this part of their time.
const TIMED_OUT: f64 = 0.9;

/// Calls that wait for events, by how their names begin, and from which time-out on these are what is waited for.
const EVENTS: [&str; 6] = ["epoll_", "poll", "ppoll", "select", "pselect", "recv"];
const LONG_NS: u64 = 50_000_000;

/// The state of a thread that loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health<'a> {
    /// It has deadlines and meets them.
    Met,
    /// It mostly sleeps as long as it wants.
    Sleeps,
    /// It computes.
    Computes { ns: u64, times: u64 },
    /// It waits for what comes from outside, most of it from this thread. Where nearly nothing came, the call whose time-out ended the waits.
    Input { ns: u64, times: u64, from: Option<&'a str>, timed_out: Option<&'a str> },
    /// It waits for signals of other threads, most for this one, of which nothing is known that is against its will.
    Signalled { ns: u64, times: u64, by: &'a str },
    /// It is blocked most of the time, and nobody knows why.
    Unknown { ns: u64, times: u64 },
}

/// The state of this thread.
pub(super) fn health<'a>(thread: &'a ThreadBudget, budget: &Budget) -> Health<'a> {
    let met = thread.turns.as_ref().is_some_and(|turns| {
        let few = turns.missed.saturating_mul(MISSED) <= turns.turns;
        turns.turns >= TURNS && few && share(turns.behind_ns, thread) < LATE
    });
    if met {
        return Health::Met;
    }
    let facts = Facts::new(thread, budget);
    let own = |part: &TimePart| part.spent == Spent::Running && !facts.is_lost(part);
    // A thread that has no work waits for no input of the program. Processes of one name hand nothing on: they are copies by fork(2).
    let shares_work = runtime::shares_work(thread, budget);
    let hands_on = |part: &TimePart| {
        let namesake = |who: &Who| who.pid == thread.pid && who.thread == thread.thread;
        shares_work && part.spent == Spent::Condition && part.who.as_ref().is_some_and(namesake)
    };
    let from_outside = |part: &TimePart| ends_from_outside(part, thread, shares_work) || is_idle_poll(part);
    let waits = |part: &TimePart| from_outside(part) && !hands_on(part) && !facts.is_lost(part);
    // Those of Python have their program's name unless it gives them others.
    let is_signal = |part: &TimePart| {
        let another = !hands_on(part) || runtime::is_python(thread);
        let signal = part.spent == Spent::Condition && part.who.is_some() || is_from_own(part, thread, shares_work);
        signal && another && !waits(part) && !facts.is_lost(part)
    };
    let (ran, waited, signalled) = (spent(thread, own), spent(thread, waits), spent(thread, is_signal));
    let slept = spent(thread, |part| part.spent == Spent::Asleep && !waits(part) && !facts.is_lost(part));
    let times = |is_so: &dyn Fn(&TimePart) -> bool| {
        thread.parts.iter().filter(|part| is_so(part)).fold(0u64, |sum, part| sum.saturating_add(part.times))
    };
    let is_unknown = |part: &TimePart| is_unknown(part) && !facts.is_lost(part);
    let unknown = spent(thread, is_unknown);
    let signals = thread.parts.iter().filter(|part| is_signal(part));
    let by = signals.max_by_key(|part| part.ns).and_then(|part| Some(part.who.as_ref()?.thread.as_str()));
    if unknown > ran.max(waited).max(slept).max(signalled) {
        Health::Unknown { ns: unknown, times: times(&is_unknown) }
    } else if let Some(by) = by
        && signalled > ran.max(waited).max(slept)
    {
        Health::Signalled { ns: signalled, times: times(&is_signal), by }
    } else if share(ran, thread) >= MOSTLY || ran > waited.max(slept) {
        Health::Computes { ns: ran, times: times(&own) }
    } else if waited > slept {
        let timed_out = |part: &TimePart| part.spent == Spent::Asleep && waits(part);
        match thread.parts.iter().filter(|part| timed_out(part)).max_by_key(|part| part.ns) {
            Some(part) if spent(thread, timed_out) as f64 >= TIMED_OUT * waited as f64 => {
                let timed_out_in = part.call.as_deref();
                Health::Input { ns: waited, times: times(&timed_out), from: None, timed_out: timed_out_in }
            }
            _ => {
                let from = sender(thread, thread.parts.iter().filter(|part| waits(part)), waited);
                Health::Input { ns: waited, times: times(&waits), from, timed_out: None }
            }
        }
    } else {
        Health::Sleeps
    }
}

/// The thread of another process that ended most of these waits, by their time.
fn sender<'a>(thread: &ThreadBudget, waits: impl Iterator<Item = &'a TimePart>, all_ns: u64) -> Option<&'a str> {
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for part in waits {
        if let Some(who) = part.who.as_ref().filter(|who| who.tid != 0 && who.pid != thread.pid) {
            let ns = by_name.entry(&who.thread).or_default();
            *ns = ns.saturating_add(part.ns);
        }
    }
    let (name, ns) = by_name.into_iter().max_by_key(|(_, ns)| *ns)?;
    (ns.saturating_mul(2) > all_ns).then_some(name)
}

/// Blocked, and nobody knows why; or by whom: the counters of `/proc` do not say who ends a wait.
fn is_unknown(part: &TimePart) -> bool {
    matches!(part.spent, Spent::Blocked | Spent::Unknown) || part.spent == Spent::Condition && part.who.is_none()
}

/// A wait for events with a long time-out is one for input; with a short one it is a sleep.
fn is_idle_poll(part: &TimePart) -> bool {
    let event = part.call.as_deref().is_some_and(|call| EVENTS.iter().any(|start| call.starts_with(start)));
    part.spent == Spent::Asleep && event && part.ns / part.times.max(1) >= LONG_NS
}

/// Whether what ends a wait comes from outside, be it through other threads.
fn ends_from_outside(part: &TimePart, thread: &ThreadBudget, shares_work: bool) -> bool {
    if part.spent == Spent::Condition || is_from_own(part, thread, shares_work) {
        let did = part.who.as_ref().and_then(|who| who.meanwhile.as_deref());
        return did.is_some_and(|did| ends_from_outside(did, thread, shares_work));
    }
    matches!(
        part.spent,
        Spent::Pipe | Spent::MessageQueue | Spent::Socket | Spent::Poll | Spent::OtherFile | Spent::Pause
    )
}

impl Health<'_> {
    /// From which share of the run on a loss is worth the first sentence.
    fn least_of_a_loss(self, kind: LossKind) -> f64 {
        match self {
            Self::Met if QUEUED.contains(&kind) => MET_QUEUED,
            Self::Met => MET,
            Self::Computes { .. } | Self::Signalled { .. } if QUEUED.contains(&kind) => COMPUTING_QUEUED,
            Self::Computes { .. } | Self::Signalled { .. } => COMPUTING,
            Self::Sleeps | Self::Input { .. } | Self::Unknown { .. } => WAITING,
        }
    }

    /// Whether this loss is worth the first sentence. A program that computes, and waits for less than that, is fast enough for those who
    /// give it work; one that waits longer for its own threads is not late by them.
    pub(super) fn is_led_by(self, one: &Found, thread: &ThreadBudget) -> bool {
        let longer = match self {
            Self::Computes { ns, .. } | Self::Signalled { ns, .. } => ns,
            Self::Input { ns, .. } => ns / OF_INPUT,
            Self::Met | Self::Sleeps | Self::Unknown { .. } => 0,
        };
        share(one.ns, thread) >= self.least_of_a_loss(one.kind) && !(one.may_be_idle && one.ns < longer)
    }

    /// As an entry of the losses.
    pub(super) fn loss(self, thread: &ThreadBudget) -> Loss {
        match self {
            Self::Met => healthy(LossKind::OnTime, 0, thread.turns.as_ref().map_or(0, |turns| turns.turns), thread),
            Self::Sleeps => healthy(LossKind::OnTime, 0, 0, thread),
            Self::Computes { ns, times } => {
                Loss { place: runtime::mostly_in(thread), ..healthy(LossKind::Computes, ns, times, thread) }
            }
            Self::Input { ns, times, from, timed_out } => {
                let [peer, call] = [from, timed_out].map(|known| known.map(str::to_owned));
                let place = LossPlace { peer, call, ..LossPlace::default() };
                Loss { place, ..healthy(LossKind::Input, ns, times, thread) }
            }
            Self::Signalled { ns, times, by } => {
                let place = LossPlace { culprit: Some(by.to_owned()), ..LossPlace::default() };
                Loss { place, ..healthy(LossKind::Condition, ns, times, thread) }
            }
            Self::Unknown { ns, times } => healthy(LossKind::Unknown, ns, times, thread),
        }
    }
}
