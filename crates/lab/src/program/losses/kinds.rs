//! The parts of a thread's time as losses: which kind each is, where, and by whom. Parts of one kind and place are one loss.

use punctual_record::{
    Budget, BudgetSource, LossKind, LossPlace, MemoryLimit, Quota, Spent, ThreadBudget, ThreadPolicy, TimePart, Who,
};

use super::sort::{Found, Sort, share, spent};
use super::waits::Rechecked;
use super::{runtime, waits};

/// A nice value that is larger by this gets a third of the CPU time, or less.
const NICER: i8 = 5;
/// The usual timer slack is 50 µs: a sleep that takes longer by more than twice that shows another, where the slack is not known.
const SLACK_NS: u64 = 100_000;
/// Less slack is not worth a change. Sleeps that are late by half of the slack on average are so by the slack, and those for this share of the
/// run are a loss: a few long ones are not. Those of 1 ms are late by a little more.
const LEAST_SLACK_NS: u64 = 10_000;
/// Any interrupt within the slack ends a sleep. A kernel of HZ=1000 has one each ms, so that no slack makes sleeps later than half of that on
/// average.
const HALF_TICK_NS: u64 = 400_000;
const BY_SLACK: f64 = 0.05;
/// Page faults of new memory are a loss where they are this part of what the thread does.
const TAKES: f64 = 0.25;
/// They are the allocator's, with its maps, where these give memory back for this part of that time: to free a page takes about a tenth of what
/// it takes to have it. Most programs have an allocator, so it is a loss only from this part of what the thread does on.
const GIVES_BACK: f64 = 0.04;
const ALLOCATES: f64 = 0.5;
/// Copies of pages that take this share of the run make its forks a part of that loss.
const COPIES: f64 = 0.01;
/// Reads of a file are of what a memory limit dropped, where reclaim in a group with a limit takes this part of their time.
const DROPPED: f64 = 0.01;
/// Where many had the CPU in turn, the one with this part of the time is the culprit, and others are said to have run too.
const CULPRIT: u64 = 4;
/// A thread that runs or is ready for this share of its time is busy.
const BUSY: f64 = 0.3;
/// An event loop has turned at least so often; a handler that sleeps this long on average holds it up.
const LOOPS: u64 = 10;
const HELD_UP_NS: u64 = 1_000_000;
/// Waits of threads at a barrier are as many, but for this part.
const TOGETHER: f64 = 0.25;

/// Calls that map and unmap memory; that give it back; that make processes.
const MAPS: [&str; 5] = ["mmap", "munmap", "brk", "mremap", "madvise"];
const FREES: [&str; 3] = ["munmap", "brk", "madvise"];
const FORKS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
/// Losses of time in the queue of a CPU.
pub(super) const QUEUED: [LossKind; 6] = [
    LossKind::HogThread,
    LossKind::HogProcess,
    LossKind::HogFifo,
    LossKind::Nice,
    LossKind::IdlePolicy,
    LossKind::Polling,
];
const SLEEPS: [&str; 2] = ["clock_nanosleep", "nanosleep"];
const YIELD: &str = "sched_yield";

/// The losses of a thread, one for each kind and each lock.
pub(super) fn found(thread: &ThreadBudget, budget: &Budget) -> Vec<Found> {
    let facts = Facts::new(thread, budget);
    let mut all: Vec<Found> = Vec::new();
    let mut parts: Vec<Vec<&TimePart>> = Vec::new();
    for part in thread.parts.iter().filter(|part| part.ns > 0) {
        let Some(Sort { kind, place, may_be_idle }) = facts.sort(part) else { continue };
        let lock = |place: &LossPlace| (place.lock.clone(), place.file.clone().filter(|_| place.file_lock));
        let same = |one: &Found| one.kind == kind && lock(&one.place) == lock(&place);
        if let Some(at) = all.iter().position(same) {
            let one = &mut all[at];
            parts[at].push(part);
            one.ns = one.ns.saturating_add(part.ns);
            one.may_be_idle &= may_be_idle;
            match one.places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, ns)) => *ns = ns.saturating_add(part.ns),
                None => one.places.push((place, part.ns)),
            }
        } else {
            let places = vec![(place.clone(), part.ns)];
            all.push(Found { kind, ns: part.ns, times: 0, place, may_be_idle, places });
            parts.push(vec![part]);
        }
    }
    for (one, parts) in all.iter_mut().zip(&parts) {
        one.times = TimePart::stretches(parts);
        if let Some((place, ns)) = one.places.iter().max_by_key(|(_, ns)| *ns) {
            one.place = place.clone();
            if QUEUED.contains(&one.kind) && ns.saturating_mul(CULPRIT) < one.ns {
                one.place.culprit = None;
            }
        }
    }
    facts.reread(&mut all);
    facts.unnamed(&mut all);
    all
}

/// Whether its own computing makes the turns of this thread late: a turn computes for longer than its period.
pub(super) fn own_work(thread: &ThreadBudget) -> bool {
    let Some(turns) = thread.turns.as_ref().filter(|turns| turns.missed > 1 && turns.turns > 0) else { return false };
    turns.period_ns > 0 && spent(thread, |part| part.spent == Spent::Running) / turns.turns > turns.period_ns
}

/// What the sort of a part depends on beside the part.
pub(super) struct Facts<'a> {
    thread: &'a ThreadBudget,
    budget: &'a Budget,
    /// What page faults of new memory are a loss of, if they are one.
    takes: Option<LossKind>,
    copies: bool,
    /// Most page faults are copies: a sample at the begin or the end of a fault does not say which it is.
    copies_most: bool,
    own_work: bool,
    /// Go's collector takes more than its part, mostly in this function.
    collects: Option<&'a str>,
    /// Where it waits for a signal, with time-outs between.
    rechecked: Vec<Rechecked<'a>>,
    /// How often it waited in the call of event loops, epoll_wait(2).
    loops: u64,
    /// The kernel delayed as many acknowledgements as there are waits that may be for one.
    acks_are_late: bool,
    /// The thread that has the interpreter's lock, and the process that traces.
    interpreter: Option<&'a str>,
    tracer: Option<u32>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(thread: &'a ThreadBudget, budget: &'a Budget) -> Self {
        let copied = spent(thread, |part| part.spent == Spent::FaultCopy);
        let copies = share(copied, thread) >= COPIES;
        let polls = thread.parts.iter().filter(|part| in_epoll(part));
        Self {
            thread,
            budget,
            takes: takes(thread),
            copies,
            copies_most: copies && copied > spent(thread, |part| part.spent == Spent::FaultNew),
            rechecked: waits::rechecked(thread),
            own_work: own_work(thread),
            collects: runtime::collects_itself(thread),
            acks_are_late: waits::are_acknowledged_late(budget),
            loops: polls.fold(0, |sum, part| sum.saturating_add(part.times)),
            interpreter: runtime::interpreter(thread, budget),
            tracer: thread
                .parts
                .iter()
                .filter(|part| part.spent == Spent::Traced)
                .find_map(|part| Some(part.who.as_ref()?.pid)),
        }
    }

    /// Whether the host took as much from the CPUs as interrupts did from the thread: a CPU that it takes in the midst of an interrupt is in that
    /// interrupt, so nobody knows whose the time is.
    fn host_took_as_much(&self) -> bool {
        let interrupted = spent(self.thread, |part| part.spent == Spent::Interrupted);
        self.budget.steal.is_some_and(|steal| steal.ns >= interrupted)
    }

    /// Whether this part is a loss.
    pub(super) fn is_lost(&self, part: &TimePart) -> bool {
        self.sort(part).is_some()
    }

    /// The loss that this part is.
    fn sort(&self, part: &TimePart) -> Option<Sort> {
        if let Some(holder) = self.interpreter.filter(|holder| runtime::is_for_interpreter(part, holder)) {
            return Some(Sort::by(LossKind::InterpreterLock, Some(holder.to_owned())));
        }
        let nowhere = LossPlace::default;
        let of_file = || LossPlace { file: part.thing.file.clone(), ..LossPlace::default() };
        let of_cgroup = || LossPlace { cgroup: part.thing.cgroup.clone(), ..LossPlace::default() };
        let culprit = || part.who.as_ref().map(|who| who.thread.clone());
        Some(match part.spent {
            // Counters say that the thread wanted a CPU, and not who had it.
            Spent::Ready if part.who.is_none() && self.budget.source == BudgetSource::Files => {
                Sort::kept(LossKind::HogProcess, nowhere())
            }
            Spent::Ready => self.ready(part.who.as_ref()?)?,
            Spent::Interrupted if self.host_took_as_much() => return None,
            Spent::Interrupted => Sort::by(LossKind::Interrupts, culprit()),
            Spent::Host => Sort::kept(LossKind::Host, nowhere()),
            Spent::ThrottledByQuota => self.quota(part),
            Spent::ThrottledRealTime => Sort::kept(LossKind::RtLimit, of_cgroup()),
            Spent::ThrottledDeadline => Sort::kept(LossKind::DeadlineBudget, nowhere()),
            Spent::Stopped => {
                Sort::kept(LossKind::Stopped, LossPlace { culprit: culprit(), stop: part.thing.stop, ..nowhere() })
            }
            Spent::Traced => Sort::by(LossKind::Tracer, culprit()),
            Spent::Frozen => Sort::kept(LossKind::Frozen, LossPlace { culprit: culprit(), ..of_cgroup() }),
            Spent::SleptLonger => self.slept_longer(part)?,
            Spent::Asleep => self.asleep(part)?,
            Spent::Socket if waits::is_tick(part, self.budget.tick_ns) => {
                Sort::kept(LossKind::CoarseTimeout, LossPlace { call: part.call.clone(), ..LossPlace::default() })
            }
            Spent::Socket if waits::is_held_back(part, self.acks_are_late) => {
                Sort::kept(LossKind::DelayedAck, nowhere())
            }
            Spent::Socket | Spent::Pipe | Spent::MessageQueue if waits::is_to_send(part) => {
                let kind = match part.spent {
                    Spent::Socket => LossKind::Socket,
                    Spent::Pipe => LossKind::Pipe,
                    _ => LossKind::MessageQueue,
                };
                Sort::kept(kind, LossPlace { call: part.call.clone(), ..LossPlace::default() })
            }
            Spent::Disk => {
                let (device, call) = (part.thing.device.clone(), part.call.clone());
                Sort::kept(LossKind::Disk, LossPlace { device, call, ..of_file() })
            }
            Spent::FaultFile => Sort::kept(LossKind::FaultFile, of_file()),
            Spent::FaultSwap => Sort::kept(LossKind::FaultSwap, self.memory(part)),
            Spent::FaultCopy => self.copied(),
            Spent::FaultNew if self.copies_most => self.copied(),
            Spent::FaultNew => Sort::kept(self.takes?, nowhere()),
            Spent::Reclaim => Sort::kept(LossKind::Reclaim, self.memory(part)),
            Spent::MmapLock => Sort::by(LossKind::MmapLock, culprit()),
            Spent::Supervisor => Sort::by(LossKind::Supervisor, culprit()),
            Spent::Running if self.copies && runs_in(part, &FORKS) => self.copied(),
            Spent::Running if self.takes == Some(LossKind::Allocator) && runs_in(part, &MAPS) => {
                Sort::kept(LossKind::Allocator, nowhere())
            }
            Spent::Running if self.collects.is_some() && runtime::is_of_collector(part) => {
                let function = self.collects.map(str::to_owned);
                Sort::kept(LossKind::Collector, LossPlace { function, ..LossPlace::default() })
            }
            Spent::Running if self.own_work => Sort::kept(LossKind::OwnWork, runtime::mostly_in(self.thread)),
            _ => waits::passed_on(part, self.thread, self.budget)
                .or_else(|| waits::sort(part, self.thread, self.budget, self.meets(part)))?,
        })
    }

    /// Copies of pages are of those that a child shares where the thread makes processes; else they may be of zeroes.
    fn copied(&self) -> Sort {
        let mut calls = self.thread.parts.iter().filter_map(|part| part.call.as_deref());
        let call = calls.find(|call| FORKS.contains(call)).map(str::to_owned);
        Sort::kept(LossKind::FaultCopy, LossPlace { call, ..LossPlace::default() })
    }

    /// Who had the CPU, and why it was preferred.
    fn ready(&self, who: &Who) -> Option<Sort> {
        // The idle thread has number 0. What our own reader takes is the price of watching.
        if who.tid == 0 || Some(who.pid) == self.budget.watcher {
            return None;
        }
        let culprit = Some(who.thread.clone());
        if self.tracer == Some(who.pid) {
            return Some(Sort::by(LossKind::Tracer, culprit));
        }
        let real_time = matches!(who.policy, ThreadPolicy::RealTime(_) | ThreadPolicy::Deadline);
        let kind = match (self.thread.policy, who.policy) {
            (ThreadPolicy::Idle, ThreadPolicy::Fair(_)) => LossKind::IdlePolicy,
            (ThreadPolicy::Fair(own), ThreadPolicy::Fair(other)) if own > 0 && own.saturating_sub(other) >= NICER => {
                LossKind::Nice
            }
            _ if who.pid == self.thread.pid && self.polls(who) => LossKind::Polling,
            // Threads of one name share one work: what one of them computes is what the program computes.
            _ if who.pid == self.thread.pid && who.thread == self.thread.thread => {
                return Some(Sort::idle(LossKind::HogThread, LossPlace { culprit, ..LossPlace::default() }));
            }
            _ if who.pid == self.thread.pid => LossKind::HogThread,
            _ if real_time => LossKind::HogFifo,
            _ => LossKind::HogProcess,
        };
        Some(Sort::by(kind, culprit))
    }

    /// Whether this thread of the program mostly yields. Threads of one name have one number, maybe that of this thread.
    fn polls(&self, who: &Who) -> bool {
        let others = || self.budget.threads.iter().filter(|other| other.pid == who.pid && other.tid != self.thread.tid);
        let sum = |is_so: &dyn Fn(&TimePart) -> bool| {
            let namesakes = others().filter(|other| other.thread == who.thread);
            namesakes.fold(0u64, |sum, other| sum.saturating_add(spent(other, is_so)))
        };
        let yields = sum(&|part| part.call.as_deref() == Some(YIELD));
        yields.saturating_mul(2) > sum(&|part| matches!(part.spent, Spent::Running | Spent::Ready))
    }

    /// The memory limit that made the thread reclaim, with the kernel's count of how often it was hit.
    fn memory(&self, part: &TimePart) -> LossPlace {
        let cgroup = part.thing.cgroup.clone();
        let limit = self.budget.memory.iter().find(|limit| Some(&limit.cgroup) == cgroup.as_ref());
        let hits = limit.and_then(|limit| limit.hits);
        LossPlace { cgroup, limit: limit.map(MemoryLimit::limit), hits, ..LossPlace::default() }
    }

    /// The quota of the control group, or too many threads for it.
    fn quota(&self, part: &TimePart) -> Sort {
        let limited = part.thing.cgroup.as_ref();
        let known = |quota: &&Quota| limited.map_or(quota.throttled > 0, |cgroup| *cgroup == quota.cgroup);
        let quota = self.budget.quotas.iter().find(known);
        let cgroup = limited.cloned().or_else(|| Some(quota?.cgroup.clone()));
        let cpus =
            quota.filter(|quota| quota.period_ns > 0).map(|quota| quota.quota_ns as f64 / quota.period_ns as f64);
        let place = LossPlace { cgroup, limit: cpus.map(of_cpus), ..LossPlace::default() };
        let is_busy = |thread: &&ThreadBudget| {
            let busy = |part: &TimePart| matches!(part.spent, Spent::Running | Spent::Ready | Spent::ThrottledByQuota);
            thread.pid == self.thread.pid && share(spent(thread, busy), thread) >= BUSY
        };
        let busy = self.budget.threads.iter().filter(is_busy).count();
        // More than its wall time: the group was without quota on two CPUs at once. Threads that take turns are on one.
        let beside = quota.is_some_and(|quota| quota.throttled_ns > self.thread.wall_ns);
        let crowd = busy > 2 && beside && cpus.is_some_and(|cpus| busy as f64 > cpus + 1.0);
        Sort::kept(if crowd { LossKind::ThreadsOverQuota } else { LossKind::Quota }, place)
    }

    /// Sleeps that are late by the thread's timer slack.
    fn slept_longer(&self, part: &TimePart) -> Option<Sort> {
        let each = part.ns / part.times.max(1);
        let by_slack = match self.thread.timer_slack_ns {
            // The slack delays a sleep by its own length at most; a wake-up takes some time of its own.
            Some(slack) => {
                let by = HALF_TICK_NS.min(slack / 2)..=slack.saturating_mul(2).saturating_add(SLACK_NS);
                slack >= LEAST_SLACK_NS && by.contains(&each)
            }
            None => each > SLACK_NS,
        };
        let is_ordinary = matches!(self.thread.policy, ThreadPolicy::Fair(_) | ThreadPolicy::Idle);
        let is_much = each > SLACK_NS || share(part.ns, self.thread) >= BY_SLACK;
        (is_ordinary && by_slack && is_much).then(|| Sort::kept(LossKind::TimerSlack, LossPlace::default()))
    }

    /// A sleep in a handler of an event loop, or a time-out in a wait for a signal. Other sleeps are the program's choice.
    fn asleep(&self, part: &TimePart) -> Option<Sort> {
        if let Some(wait) = self.rechecked.iter().find(|wait| wait.has(part)) {
            return waits::sort(wait.signalled, self.thread, self.budget, self.meets(wait.signalled));
        }
        let held_up = self.loops >= LOOPS
            && part.call.as_deref().is_some_and(|call| SLEEPS.contains(&call))
            && part.ns / part.times.max(1) >= HELD_UP_NS;
        let place = LossPlace { call: part.call.clone(), ..LossPlace::default() };
        held_up.then(|| Sort::kept(LossKind::EventLoop, place))
    }

    /// Whether others wait for the same signal as often, and the same thread ends their waits: they meet at a barrier.
    fn meets(&self, part: &TimePart) -> bool {
        let (Some(futex), Some(who)) = (part.thing.futex, part.who.as_ref()) else { return false };
        let alike = |other: &TimePart| {
            other.spent == Spent::Condition
                && other.thing.futex == Some(futex)
                && other.who.as_ref().is_some_and(|last| last.tid == who.tid)
                && other.times.abs_diff(part.times) as f64 <= TOGETHER * part.times as f64
        };
        let others = self.budget.threads.iter().filter(|other| other.tid != self.thread.tid);
        others.filter(|other| other.pid == self.thread.pid && other.parts.iter().any(alike)).count() >= 2
    }

    /// A long time in the queue is for those who had the CPU in the rest of it, or of a limit where none had it.
    fn unnamed(&self, all: &mut [Found]) {
        let parts = self.thread.parts.iter().filter(|part| part.is_kept_by_unknown());
        let (ns, times) = parts
            .fold((0u64, 0u64), |(ns, times), part| (ns.saturating_add(part.ns), times.saturating_add(part.times)));
        let limited = matches!(self.thread.policy, ThreadPolicy::RealTime(_));
        // Since Linux 6.18 a thread that is ready in a group without quota is throttled once it is to run.
        let of_quota = |kind| matches!(kind, LossKind::Quota | LossKind::ThreadsOverQuota);
        let limit = all.iter().position(|one| limited && one.kind == LossKind::RtLimit || of_quota(one.kind));
        let queued = (0..all.len()).filter(|at| QUEUED.contains(&all[*at].kind)).max_by_key(|at| all[*at].ns);
        if let Some(at) = limit.or(queued) {
            all[at].ns = all[at].ns.saturating_add(ns);
            all[at].times = all[at].times.saturating_add(times);
        }
    }

    /// A memory limit drops pages of files and of the heap, so that they are read again: one loss.
    fn reread(&self, all: &mut Vec<Found>) {
        let Some(at) = all.iter().position(|one| one.kind == LossKind::Reclaim) else { return };
        let reclaim = all[at].clone();
        let read = all.iter_mut().filter(|one| matches!(one.kind, LossKind::FaultFile | LossKind::FaultSwap));
        let much = |one: &&mut Found| reclaim.place.cgroup.is_some() && reclaim.ns as f64 >= DROPPED * one.ns as f64;
        let Some(read) = read.max_by_key(|one| one.ns).filter(much) else { return };
        read.ns = read.ns.saturating_add(reclaim.ns);
        read.times = read.times.saturating_add(reclaim.times);
        if read.place.cgroup.is_none() {
            let LossPlace { cgroup, limit, hits, .. } = reclaim.place;
            read.place = LossPlace { cgroup, limit, hits, ..std::mem::take(&mut read.place) };
        }
        if read.kind == LossKind::FaultFile {
            (read.kind, read.place.file) = (LossKind::Reclaim, None);
        }
        all.remove(at);
    }
}

/// What page faults of new memory are a loss of, if they are one.
fn takes(thread: &ThreadBudget) -> Option<LossKind> {
    let busy = spent(thread, |part| matches!(part.spent, Spent::Running | Spent::FaultNew));
    let new = spent(thread, |part| part.spent == Spent::FaultNew);
    let mapped = spent(thread, |part| runs_in(part, &MAPS));
    let freed = spent(thread, |part| runs_in(part, &FREES));
    let gives_back = freed as f64 >= GIVES_BACK * new.saturating_add(mapped) as f64;
    let (kind, ns, least) = if gives_back {
        (LossKind::Allocator, new.saturating_add(mapped), ALLOCATES)
    } else {
        (LossKind::FaultNew, new, TAKES)
    };
    (ns > 0 && ns as f64 >= least * busy as f64 && !thread.parts.iter().any(maps_a_file)).then_some(kind)
}

/// For how long a thread was without quota: throttled, or ready where none ran.
pub(super) fn without_quota(thread: &ThreadBudget) -> u64 {
    let throttled = spent(thread, |part| part.spent == Spent::ThrottledByQuota);
    if throttled == 0 { 0 } else { throttled.saturating_add(spent(thread, TimePart::is_kept_by_unknown)) }
}

fn runs_in(part: &TimePart, calls: &[&str]) -> bool {
    part.spent == Spent::Running && part.call.as_deref().is_some_and(|call| calls.contains(&call))
}

/// An allocator's memory is on no disk.
fn maps_a_file(part: &TimePart) -> bool {
    part.spent == Spent::Disk && part.call.as_deref().is_some_and(|call| MAPS.contains(&call))
}

fn in_epoll(part: &TimePart) -> bool {
    part.call.as_deref().is_some_and(|call| call.starts_with("epoll_"))
}

/// `25 % of a CPU`, `2.5 CPUs`.
fn of_cpus(cpus: f64) -> String {
    match cpus {
        _ if cpus < 1.0 => format!("{:.0} % of a CPU", cpus * 100.0),
        1.0 => "1 CPU".to_owned(),
        _ => format!("{cpus} CPUs"),
    }
}
