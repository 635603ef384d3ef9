//! The causes of many wake-ups, in bounded memory.

use std::collections::{BTreeMap, HashMap};

use punctual_linux::syscall_name;
use punctual_record::{CallCauses, Cause, CauseTime, LatePart, Waker};

use crate::culprit::Culprit;
use crate::event::Name;
use crate::follow::Follower;
use crate::history::Doing;
use crate::label::Labels;
use crate::split::{Split, Who};
use crate::stretches::{Lost, Stretches};
use crate::thread::{By, Call, Woken};
use crate::times::Times;

/// More causes, or wakers, of a call are counted as one without a name.
const MOST: usize = 512;
/// Wakers shown.
const WAKERS: usize = 5;

/// Calls that are made to wait or to yield: their return at once says something, that of others does not.
const MADE_TO_WAIT: [&str; 9] =
    ["sleep", "yield", "poll", "select", "epoll_", "futex", "recv", "sigtimedwait", "mq_timedreceive"];

fn can_block(number: i64) -> bool {
    let name = syscall_name::name_of(number);
    // epoll_ctl changes a set, and epoll_create makes one.
    !name.starts_with("epoll_c") && MADE_TO_WAIT.iter().any(|part| name.contains(part))
}

#[derive(Debug, Default)]
struct CauseTally {
    time: Times,
    lost: Lost,
}

#[derive(Debug, Default)]
struct WakerTally {
    tid: Option<i32>,
    call: Option<i64>,
    count: u64,
    waited: Times,
    own_delay: Times,
    worked: Times,
    inherited: u64,
    inverted: u64,
}

#[derive(Debug, Default)]
struct CallTally {
    calls: u64,
    blocked: u64,
    asked: Times,
    took: Times,
    late: Times,
    stretches: Stretches,
    causes: HashMap<(LatePart, Cause, Culprit), CauseTally>,
    wakers: HashMap<Culprit, WakerTally>,
}

/// All calls.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: BTreeMap<(Name, i64, Option<u64>), CallTally>,
    nominal_ns: Option<u64>,
}

impl Tally {
    /// Calls from now on are counted apart, as waits of this nominal time.
    pub(crate) fn mark(&mut self, nominal_ns: Option<u64>) {
        self.nominal_ns = nominal_ns;
    }

    /// A call that did not give up the CPU.
    pub(crate) fn at_once(&mut self, call: &Call, machine: &Follower) {
        self.tally_of(call, machine).calls += 1;
    }

    /// One that did, and cannot be cut.
    pub(crate) fn uncut(&mut self, call: &Call, machine: &Follower) {
        let tally = self.tally_of(call, machine);
        tally.calls += 1;
        tally.blocked += 1;
    }

    /// One that was cut.
    pub(crate) fn cut(&mut self, call: &Call, split: &Split, machine: &Follower) {
        let tally = self.tally_of(call, machine);
        tally.calls += 1;
        tally.blocked += 1;
        tally.late.add(split.late_ns());
        tally.stretches.next();
        for piece in &split.pieces {
            let mut key = (piece.part, piece.cause, Culprit::named(piece.who, machine));
            if tally.causes.len() >= MOST && !tally.causes.contains_key(&key) {
                key.2 = Culprit::Nobody;
            }
            let cause = tally.causes.entry(key).or_default();
            cause.time.add(piece.ns);
            tally.stretches.add(&mut cause.lost, piece.ns);
        }
        if split.timed {
            tally.asked.add(split.due_ns.saturating_sub(call.entered_ns));
            tally.took.add(call.returned_ns - call.entered_ns);
        } else if let Some(woken) = &call.woken {
            tally.waker(woken, call.since_ns, machine);
        }
    }

    fn tally_of(&mut self, call: &Call, machine: &Follower) -> &mut CallTally {
        self.calls.entry((machine.known(call.tid).name, call.number, self.nominal_ns)).or_default()
    }

    /// What was counted, the most time lost first.
    pub(crate) fn calls(&self) -> Vec<CallCauses> {
        let culprits = self.calls.values().flat_map(|call| {
            let causes = call.causes.keys().map(|(_, _, culprit)| culprit);
            causes.chain(call.wakers.keys())
        });
        let labels = Labels::naming(culprits);
        let shown = self.calls.iter().filter(|((_, number, _), call)| call.blocked > 0 || can_block(*number));
        let mut calls: Vec<CallCauses> = shown.map(|(key, call)| call.causes(key, &labels)).collect();
        calls.sort_by_key(|call| std::cmp::Reverse((call.late.total_ns, call.calls)));
        calls
    }
}

impl CallTally {
    /// Something woke a thread that waited since then.
    fn waker(&mut self, woken: &Woken, since_ns: u64, machine: &Follower) {
        let link = woken.chain.first();
        let culprit = match woken.by {
            By::Thread(tid) => Culprit::named(Who::Thread(tid), machine),
            By::Serving(Doing::Interrupt(name)) => Culprit::Interrupt(name),
            By::Serving(Doing::Softirq(vector)) => Culprit::Softirq(vector),
            By::Serving(Doing::Timer { function, .. }) => Culprit::Function(function),
            By::Serving(_) => Culprit::Nobody,
        };
        if self.wakers.len() >= MOST && !self.wakers.contains_key(&culprit) {
            return;
        }
        let first = !self.wakers.contains_key(&culprit);
        let waker = self.wakers.entry(culprit).or_default();
        waker.count += 1;
        waker.waited.add(woken.at_ns.saturating_sub(since_ns));
        let tid = link.map(|link| link.tid);
        // Known only while it is always the same.
        waker.tid = if first || waker.tid == tid { tid } else { None };
        if let Some(link) = link {
            waker.call = if first || waker.call == link.call { link.call } else { None };
            let (delay_ns, worked_ns) = machine.meanwhile(link, since_ns, woken.at_ns);
            waker.own_delay.add(delay_ns);
            waker.worked.add(worked_ns);
            waker.inherited += u64::from(link.inherited == Some(true));
            waker.inverted += u64::from(link.inherited == Some(false));
        }
    }

    fn causes(&self, (thread, number, nominal_ns): &(Name, i64, Option<u64>), labels: &Labels) -> CallCauses {
        let mut causes: Vec<CauseTime> = self
            .causes
            .iter()
            .map(|((part, cause, culprit), tally)| CauseTime {
                part: *part,
                cause: *cause,
                culprit: labels.label(*culprit),
                time: tally.time.spread(),
                stretches_ns: self.stretches.per_wake_up(&tally.lost),
            })
            .collect();
        causes.sort_by(|a, b| {
            let key = |cause: &CauseTime| (std::cmp::Reverse(cause.time.total_ns), cause.part, cause.cause);
            key(a).cmp(&key(b)).then_with(|| a.culprit.cmp(&b.culprit))
        });
        let mut wakers: Vec<Waker> = self
            .wakers
            .iter()
            .map(|(culprit, waker)| Waker {
                name: labels.waker(*culprit),
                tid: waker.tid.and_then(|tid| u32::try_from(tid).ok()),
                call: waker.call.map(syscall_name::name_of),
                count: waker.count,
                waited: waker.waited.some(),
                own_delay: waker.own_delay.some(),
                worked: waker.worked.some(),
                inherited: waker.inherited,
                inverted: waker.inverted,
            })
            .collect();
        wakers.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        wakers.truncate(WAKERS);
        CallCauses {
            thread: thread.to_string(),
            call: syscall_name::name_of(*number),
            nominal_ns: *nominal_ns,
            calls: self.calls,
            blocked: self.blocked,
            at_once: self.calls - self.blocked,
            asked: self.asked.some(),
            took: self.took.some(),
            late: self.late.spread(),
            causes,
            wakers,
        }
    }
}
