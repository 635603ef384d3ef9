//! Waits for another thread or process: for its lock, its signal, its answer or its end.

use punctual_record::{Budget, LossKind, LossPlace, Spent, ThreadBudget, TimePart, Who};

use super::runtime::{JAVA, collects, shares_work};
use super::sort::{Sort, works};

/// Most links of a chain of threads that wait for each other.
const DEEPEST: usize = 8;
/// An acknowledgement is delayed for 40 ms to 200 ms (`TCP_DELACK_MIN`, `TCP_DELACK_MAX`), and its timer counts in ticks.
const ACK_NS: [u64; 2] = [36_000_000, 220_000_000];
/// The softirq that receives: it ends a wait for what is sent from outside of the program's calls.
const RECEIVES: &str = "NET_RX";
/// The kernel's count of delayed acknowledgements is of the waits, if it is at least this part of their number, and at most this multiple:
/// other connections have some too.
const ACKS: [f64; 2] = [0.8, 2.0];
/// Fewer waits show no habit: a thread that waits once waits for the end of the program, or for work.
const FEWEST: u64 = 10;
/// Calls that change the address space, whose waits for another thread of the process are for its lock.
const ADDRESS_SPACE: [&str; 7] = ["mmap", "munmap", "mprotect", "mremap", "brk", "madvise", "clone"];
/// Calls that send, which wait for room at a socket, in a pipe or in a queue, and the one that connects.
const SENDS: [&str; 7] = ["sendto", "sendmsg", "sendmmsg", "send", "write", "writev", "sendfile"];
const SENDS_MESSAGE: [&str; 2] = ["msgsnd", "mq_timedsend"];
const CONNECT: &str = "connect";
/// The softirq that ends waits whose time-out counts in ticks of HZ (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
const TICK: &str = "TIMER";
/// The shortest time-out is a tick, and begins within another: it ends after two at most. One of two ticks, which is longer than was asked for
/// by less than it was asked for, ends after three. The limit is between, since a busy CPU serves its timers late.
const TICKS: f64 = 2.5;
/// A condition variable of glibc has its futexes within its size.
const CONDITION_BYTES: u64 = 48;
/// A wait for a signal has at most this many time-outs: with more, it is a sleep that a signal ends now and then.
const RECHECKS: u64 = 4;

/// The loss that this wait is; `None` where the thread may have had no work.
pub(super) fn sort(part: &TimePart, thread: &ThreadBudget, budget: &Budget, meets: bool) -> Option<Sort> {
    let watcher = budget.watcher;
    let who = part.who.as_ref().filter(|who| who.tid != 0);
    match part.spent {
        Spent::Lock | Spent::FileLock => Some(lock(part, who, thread.tid, watcher)),
        Spent::Condition => condition(part, who?, (thread, budget), meets),
        // By an eventfd, threads of a process signal each other.
        _ if is_from_own(part, thread, shares_work(thread, budget)) && thread.process != JAVA => {
            condition(part, who?, (thread, budget), false)
        }
        Spent::Pipe | Spent::MessageQueue => {
            let kind = if part.spent == Spent::Pipe { LossKind::Pipe } else { LossKind::MessageQueue };
            let peer = Some(who?.thread.clone());
            Some(Sort::idle(kind, LossPlace { peer, ..LossPlace::default() }))
        }
        Spent::Socket => socket(part, who?, watcher),
        Spent::Blocked => {
            let who = who.filter(|who| who.pid == thread.pid)?;
            let maps = part.call.as_deref().is_some_and(|call| ADDRESS_SPACE.contains(&call));
            let culprit = Some(who.thread.clone());
            maps.then(|| Sort::kept(LossKind::MmapLock, LossPlace { culprit, ..LossPlace::default() }))
        }
        Spent::Child => {
            let culprit = who.map(|who| who.thread.clone());
            Some(Sort::idle(LossKind::Child, LossPlace { culprit, ..LossPlace::default() }))
        }
        Spent::Spawn => Some(Sort::by(LossKind::Spawn, who.map(|who| who.thread.clone()))),
        _ => None,
    }
}

/// Whether another thread of the process ended this wait for events. Where threads share the work, it may have had none.
pub(super) fn is_from_own(part: &TimePart, thread: &ThreadBudget, shares_work: bool) -> bool {
    let own = |who: &Who| who.pid == thread.pid && !(shares_work && who.thread == thread.thread);
    matches!(part.spent, Spent::Poll | Spent::OtherFile) && part.who.as_ref().is_some_and(own)
}

/// Whether this wait at a socket ends by time-outs of a tick, as often as shows a habit.
pub(super) fn is_tick(part: &TimePart, tick_ns: Option<u64>) -> bool {
    let by_tick = part.who.as_ref().is_some_and(|who| who.tid == 0 && who.thread == TICK);
    let each = part.ns as f64 / part.times.max(1) as f64;
    by_tick && part.times >= FEWEST && tick_ns.is_some_and(|tick| each <= TICKS * tick as f64)
}

/// Whether this wait at a socket, a pipe or a queue is for the other end, of which no process is known, to take data or a connection: the thread
/// has work, and waits for no input.
pub(super) fn is_to_send(part: &TimePart) -> bool {
    let outside = part.who.as_ref().is_none_or(|who| who.tid == 0);
    let sends = |call: &str| match part.spent {
        Spent::Socket => call == CONNECT || SENDS.contains(&call),
        Spent::Pipe => SENDS.contains(&call),
        Spent::MessageQueue => SENDS_MESSAGE.contains(&call),
        _ => false,
    };
    outside && part.call.as_deref().is_some_and(sends)
}

/// Waits for a signal of another thread that time out now and then, to look whether it was missed: those of a monitor of Java.
#[derive(Debug)]
pub(super) struct Rechecked<'a> {
    /// Those that a signal ended, the longest of them for all.
    pub(super) signalled: &'a TimePart,
    futex: u64,
}

impl Rechecked<'_> {
    /// Whether this sleep is a time-out of the same wait.
    pub(super) fn has(&self, part: &TimePart) -> bool {
        part.thing.futex.is_some_and(|futex| futex.abs_diff(self.futex) < CONDITION_BYTES)
    }
}

/// The waits of this thread that are of such a kind: a thread of Java looks after 1 ms, 8 ms and 64 ms whether its monitor is free.
pub(super) fn rechecked(thread: &ThreadBudget) -> Vec<Rechecked<'_>> {
    let of = |spent: Spent| thread.parts.iter().filter(move |part| part.spent == spent && part.thing.futex.is_some());
    let times = |spent: Spent, wait: &Rechecked<'_>| {
        of(spent).filter(|part| wait.has(part)).fold(0u64, |sum, part| sum.saturating_add(part.times))
    };
    let mut waits: Vec<Rechecked<'_>> = Vec::new();
    // Elsewhere a wait with a time-out may be a period.
    for signalled in of(Spent::Condition).filter(|_| thread.process == JAVA) {
        let Some(futex) = signalled.thing.futex else { continue };
        if !waits.iter().any(|wait| wait.has(signalled)) {
            waits.push(Rechecked { signalled, futex });
        }
    }
    waits.retain(|wait| {
        let (slept, woken) = (times(Spent::Asleep, wait), times(Spent::Condition, wait));
        slept <= woken.saturating_mul(RECHECKS)
    });
    waits
}

/// A lock, by what its holder did meanwhile.
fn lock(part: &TimePart, holder: Option<&Who>, waiter: u32, watcher: Option<u32>) -> Sort {
    let mut place = LossPlace {
        lock: part.thing.futex.map(address),
        file: part.thing.file.clone(),
        holder: holder.map(|who| who.thread.clone()),
        file_lock: part.spent == Spent::FileLock,
        call: part.call.clone().filter(|_| part.spent == Spent::FileLock),
        ..LossPlace::default()
    };
    let Some(did) = holder.and_then(|who| who.meanwhile.as_deref()) else {
        return Sort::kept(LossKind::Lock, place);
    };
    if let Some(threads) = holder.and_then(|holder| taking_turns(holder, waiter)) {
        (place.holder, place.threads) = (None, Some(threads));
        return Sort::kept(LossKind::Lock, place);
    }
    match did.spent {
        Spent::Ready => place.culprit = had_the_cpu(did, watcher),
        // The file is that of the lock.
        Spent::Disk if place.file_lock => {}
        Spent::Disk => place.file = did.thing.file.clone().or(place.file),
        _ => {
            if let Some(root) = root(did) {
                place.culprit = Some(root.thread.clone());
                return Sort::kept(LossKind::Chain, place);
            }
        }
    }
    Sort::kept(LossKind::Lock, place)
}

/// How many threads wait for a lock that each of them has in turn: the holder waited for one that waited before it, or for the waiter itself.
fn taking_turns(holder: &Who, waiter: u32) -> Option<u64> {
    let mut takers = vec![waiter];
    let mut link = holder;
    for _ in 0..DEEPEST {
        // Threads of one name have one number: whether one of them waited for itself is not known.
        if takers.last() == Some(&link.tid) {
            return None;
        }
        if takers.contains(&link.tid) {
            return Some(takers.len() as u64);
        }
        takers.push(link.tid);
        let did = link.meanwhile.as_deref().filter(|did| did.spent == Spent::Lock)?;
        link = did.who.as_ref().filter(|who| who.tid != 0)?;
    }
    None
}

/// Who had the CPU for which another thread waited. What our own reader takes is the price of watching.
fn had_the_cpu(did: &TimePart, watcher: Option<u32>) -> Option<String> {
    did.who.as_ref().filter(|who| Some(who.pid) != watcher).map(|who| who.thread.clone())
}

/// The last of those who wait for each other; `None` where this one waits for nobody.
fn root(did: &TimePart) -> Option<&Who> {
    let mut last = None;
    let mut link = Some(did);
    for _ in 0..DEEPEST {
        let Some(part) = link.filter(|part| waits_for_somebody(part.spent)) else { break };
        let Some(who) = part.who.as_ref().filter(|who| who.tid != 0) else { break };
        (last, link) = (Some(who), who.meanwhile.as_deref());
    }
    last
}

const fn waits_for_somebody(spent: Spent) -> bool {
    matches!(
        spent,
        Spent::Lock
            | Spent::FileLock
            | Spent::Condition
            | Spent::Pipe
            | Spent::MessageQueue
            | Spent::Socket
            | Spent::Child
    )
}

/// A wait for a thread of this process that waits for another process of the program itself: for its end, or until it has computed. Pools of
/// worker processes have such threads, and event loops that start programs.
pub(super) fn passed_on(part: &TimePart, thread: &ThreadBudget, budget: &Budget) -> Option<Sort> {
    let mut who = part.who.as_ref().filter(|_| matches!(part.spent, Spent::Condition | Spent::Poll))?;
    let is_of_program = |pid| budget.threads.iter().any(|thread| thread.pid == pid);
    let end_of = |culprit| Sort::idle(LossKind::Child, LossPlace { culprit, ..LossPlace::default() });
    if part.spent == Spent::Poll && who.pid != thread.pid && is_of_program(who.pid) {
        // An event loop hears by a pipe that a shell has ended. What waits for a child of its own sends nothing.
        let waits = who.meanwhile.as_ref().is_some_and(|did| did.spent == Spent::Child);
        return waits.then(|| end_of(Some(who.thread.clone())));
    }
    for _ in 0..DEEPEST {
        if who.pid != thread.pid {
            return None;
        }
        let did = who.meanwhile.as_deref().filter(|did| waits_for_somebody(did.spent) || did.spent == Spent::Poll)?;
        who = did.who.as_ref().filter(|who| who.tid != 0)?;
        let other = Some(who.thread.clone()).filter(|_| who.pid != thread.pid);
        if did.spent == Spent::Child {
            return Some(end_of(other));
        }
        let works = who.meanwhile.as_ref().is_some_and(|did| works(did.spent));
        if part.spent == Spent::Condition && other.is_some() && is_of_program(who.pid) && works {
            return Some(Sort::idle(LossKind::Condition, LossPlace { peer: other, ..LossPlace::default() }));
        }
    }
    None
}

/// A wait for a signal is a loss only where the other thread was busy with it meanwhile: a thread without work waits too.
fn condition(part: &TimePart, who: &Who, (thread, budget): (&ThreadBudget, &Budget), meets: bool) -> Option<Sort> {
    let culprit = Some(who.thread.clone());
    // A condition variable begins before its futex, by how much depends on the C library: its address is not known.
    let place = LossPlace { culprit, ..LossPlace::default() };
    let own = who.pid == thread.pid;
    if part.times < FEWEST {
        return None;
    }
    let virtual_machine = thread.process == JAVA && own;
    if virtual_machine && collects(&who.thread) {
        return Some(Sort::kept(LossKind::Collector, LossPlace::default()));
    }
    let did = who.meanwhile.as_deref()?.spent;
    if virtual_machine {
        // A monitor of Java is a condition variable to the kernel: its thread parks, and whoever leaves the monitor wakes it.
        let holder = place.culprit;
        return (did != Spent::Poll && did != Spent::Condition)
            .then(|| Sort::idle(LossKind::Lock, LossPlace { holder, ..LossPlace::default() }));
    }
    let shared = who.thread == thread.thread && shares_work(thread, budget);
    // Where threads hand work to each other, one that is kept is no reason of its own.
    if own && shared && did != Spent::Running {
        return None;
    }
    let busy = matches!(
        did,
        Spent::Running
            | Spent::Ready
            | Spent::Disk
            | Spent::FaultFile
            | Spent::FaultSwap
            | Spent::FaultCopy
            | Spent::FaultNew
            | Spent::ThrottledByQuota
            | Spent::ThrottledRealTime
            | Spent::ThrottledDeadline
            | Spent::Reclaim
            | Spent::MmapLock
            | Spent::Lock
            | Spent::FileLock
    );
    if !busy {
        return None;
    }
    let kind = if meets { LossKind::Barrier } else { LossKind::Condition };
    // The main thread waits for what its own threads compute; one of them may wait for work.
    let may_be_idle = !own || thread.tid != thread.pid || shared;
    Some(Sort { kind, place, may_be_idle })
}

/// A socket, by what the other end did meanwhile.
fn socket(part: &TimePart, who: &Who, watcher: Option<u32>) -> Option<Sort> {
    let peer = Some(who.thread.clone());
    let mut place = LossPlace { peer, ..LossPlace::default() };
    let Some(did) = who.meanwhile.as_deref() else { return Some(Sort::idle(LossKind::Socket, place)) };
    match did.spent {
        Spent::Ready => {
            place.culprit = had_the_cpu(did, watcher);
            Some(Sort::kept(LossKind::StarvedServer, place))
        }
        Spent::ThrottledByQuota | Spent::ThrottledRealTime | Spent::ThrottledDeadline => {
            Some(Sort::kept(LossKind::StarvedServer, place))
        }
        // Both ends wait for the other one, until a timer of TCP sends what was held back.
        Spent::Socket if delayed(part) && did.who.as_ref().is_none_or(|who| who.tid == 0 || who.pid == 0) => {
            Some(Sort::kept(LossKind::DelayedAck, place))
        }
        _ => Some(Sort::idle(LossKind::Socket, place)),
    }
}

/// Whether these waits end by a packet that the other end holds back until this end acknowledges the one before, which its kernel delays.
/// `late` says that the kernel counted as many.
pub(super) fn is_held_back(part: &TimePart, late: bool) -> bool {
    late && may_be_held_back(part)
}

fn may_be_held_back(part: &TimePart) -> bool {
    let received = part.who.as_ref().is_some_and(|who| who.tid == 0 && who.thread == RECEIVES);
    part.spent == Spent::Socket && received && part.times >= FEWEST && delayed(part)
}

/// Whether the kernel sent as many acknowledgements late as there are waits that may be for one. A distant end may take as long to answer.
pub(super) fn are_acknowledged_late(budget: &Budget) -> bool {
    let parts = budget.threads.iter().flat_map(|thread| &thread.parts).filter(|part| may_be_held_back(part));
    let waits = parts.fold(0u64, |sum, part| sum.saturating_add(part.times)) as f64;
    budget.delayed_acks.is_some_and(|acks| (ACKS[0] * waits..=ACKS[1] * waits).contains(&(acks as f64)))
}

fn delayed(part: &TimePart) -> bool {
    (ACK_NS[0]..=ACK_NS[1]).contains(&(part.ns / part.times.max(1)))
}

fn address(of: u64) -> String {
    format!("{of:#x}")
}
