//! The worst wake-ups, with what the CPUs did meanwhile.

use punctual_linux::syscall_name;
use punctual_record::{Activity, ChainLink, LateWake, Stretch, WakePart};

use crate::culprit::Culprit;
use crate::follow::Follower;
use crate::history::Doing;
use crate::label::Labels;
use crate::names;
use crate::split::Split;
use crate::thread::{Call, State};

/// Wake-ups kept, unless asked otherwise.
const MOST: usize = 10;
/// Stretches kept of one wake-up, on each CPU.
const STRETCHES: usize = 48;
/// Shown before the deadline.
const BEFORE_NS: u64 = 20_000;

/// The latest so far, the worst first.
#[derive(Debug)]
pub(crate) struct Worst {
    wakes: Vec<Kept>,
    most: usize,
}

/// A wake-up whose culprits are named when all are known: the kernel's list of names is long.
#[derive(Debug)]
struct Kept {
    wake: LateWake,
    /// Of its parts.
    culprits: Vec<Culprit>,
}

impl Default for Worst {
    fn default() -> Self {
        Self { wakes: Vec::new(), most: MOST }
    }
}

impl Worst {
    /// Keeps this many from now on.
    pub(crate) fn keep(&mut self, most: usize) {
        self.most = most;
        self.wakes.truncate(most);
    }

    /// Keeps this one if it is among the worst. `origin_ns` is when watching began.
    pub(crate) fn take(&mut self, call: &Call, split: &Split, machine: &Follower, origin_ns: u64) {
        let late_ns = split.late_ns();
        if self.wakes.len() >= self.most && self.wakes.last().is_none_or(|least| least.wake.late_ns >= late_ns) {
            return;
        }
        let at = self.wakes.partition_point(|kept| kept.wake.late_ns >= late_ns);
        self.wakes.insert(at, describe(call, split, machine, origin_ns));
        self.wakes.truncate(self.most);
    }

    pub(crate) fn wakes(&self) -> Vec<LateWake> {
        let labels = Labels::naming(self.wakes.iter().flat_map(|kept| &kept.culprits));
        let named = |kept: &Kept| {
            let mut wake = kept.wake.clone();
            for (part, culprit) in wake.parts.iter_mut().zip(&kept.culprits) {
                part.culprit = labels.label(*culprit);
            }
            wake
        };
        self.wakes.iter().map(named).collect()
    }
}

fn describe(call: &Call, split: &Split, machine: &Follower, origin_ns: u64) -> Kept {
    let culprits = split.pieces.iter().map(|piece| Culprit::named(piece.who, machine)).collect();
    let parts = split.pieces.iter().map(|piece| {
        let (part, cause, ns) = (piece.part, piece.cause, piece.ns);
        WakePart { part, cause, culprit: None, ns }
    });
    let chain = call.woken.iter().flat_map(|woken| &woken.chain).map(|link| ChainLink {
        name: machine.known(link.tid).name.to_string(),
        tid: link.tid.unsigned_abs(),
        delay_ns: link.delay_ns,
        worked_ns: link.worked_ns,
        inherited: link.inherited,
    });
    let wake = LateWake {
        thread: machine.known(call.tid).name.to_string(),
        tid: call.tid.unsigned_abs(),
        call: syscall_name::name_of(call.number),
        at_ns: split.due_ns.saturating_sub(origin_ns),
        cpu: ran_on(call).unwrap_or(0),
        late_ns: split.late_ns(),
        parts: parts.collect(),
        chain: if split.timed { Vec::new() } else { chain.collect() },
        timeline: timeline(call, split, machine),
    };
    Kept { wake, culprits }
}

/// The CPU on which it returned.
fn ran_on(call: &Call) -> Option<u32> {
    call.steps.iter().rev().find_map(|step| match step.state {
        State::Running(cpu) => Some(cpu),
        _ => None,
    })
}

fn timeline(call: &Call, split: &Split, machine: &Follower) -> Vec<Stretch> {
    let mut cpus: Vec<u32> = call
        .steps
        .iter()
        .filter(|step| step.from_ns >= split.due_ns)
        .filter_map(|step| match step.state {
            State::Running(cpu) | State::Ready(cpu) => Some(cpu),
            _ => None,
        })
        .chain(call.fired.map(|fired| fired.cpu))
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    let from = split.due_ns.saturating_sub(BEFORE_NS);
    let stretches = |cpu: u32| {
        let spans = machine.cpu(cpu).into_iter().flat_map(move |history| history.between(from, call.returned_ns));
        spans.take(STRETCHES).map(move |span| {
            let (activity, name) = activity(span.doing, call.tid, machine);
            let from_ns = span.from_ns.cast_signed() - split.due_ns.cast_signed();
            Stretch { cpu, from_ns, ns: span.to_ns - span.from_ns, activity, name }
        })
    };
    cpus.into_iter().flat_map(stretches).collect()
}

fn activity(doing: Doing, own: i32, machine: &Follower) -> (Activity, String) {
    match doing {
        Doing::Thread(0) => (Activity::Idle, "idle".to_owned()),
        Doing::Thread(tid) => {
            let activity = if tid == own { Activity::Itself } else { Activity::Thread };
            (activity, machine.known(tid).name.to_string())
        }
        Doing::Idle(state) => (Activity::Idle, names::idle_state(Some(state))),
        Doing::Interrupt(name) => (Activity::Interrupt, name.to_string()),
        Doing::Softirq(vector) => (Activity::Softirq, names::softirq(vector)),
        Doing::Timer { .. } => (Activity::Timer, "timer".to_owned()),
        Doing::Nmi => (Activity::Interrupt, "NMI".to_owned()),
    }
}
