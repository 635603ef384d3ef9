//! The first sentence: the largest loss that is not the program's own choice, with its size and its place.

use punctual_record::{
    Budget, BudgetSource, Loss, LossKind, LossPlace, Spent, Stop, StopSignal, ThreadBudget, ThreadPolicy, TimePart,
};

use crate::document::{Block, Item, Section};
use crate::format::{spoken, unbroken, units};

use super::super::phrase::name;
use super::threads::thread_of;
use super::words::{code, did, end_of, is_of};

/// A thread that misses more than one turn in this number is not on time.
const MISSED: u64 = 50;
/// A thread that is this far behind, as a share of the run, is said to be.
const BEHIND: f64 = 0.01;
/// Losses explain a delay if they are at least one part in this many of it.
const EXPLAINS: u64 = 2;
/// A thread that sleeps for this share of the run longer than it asked for is not on time.
const LONGER: f64 = 0.05;
/// A thread that sleeps for this share of the run mostly sleeps.
const ASLEEP: f64 = 0.5;
/// Calls that sleep for a time.
const SLEEPS: [&str; 2] = ["clock_nanosleep", "nanosleep"];
const CONNECT: &str = "connect";
/// Most letters of a path in a sentence.
const PATH: usize = 40;
/// Most losses in full.
const LOSSES: usize = 12;

/// What a loss is, in words.
enum Clause {
    /// `its CPU quota stopped it`: a sentence that has the thread as its object.
    Cause(String),
    /// `waited 2 s for a lock`, and after a colon, `its holder slept`.
    Did { verb: &'static str, what: String, detail: Option<String> },
}

/// The sentences of a run whose losses are known.
pub(crate) fn sentences(budget: &Budget, losses: &[Loss]) -> Vec<String> {
    let Some(first) = losses.first() else { return Vec::new() };
    let mut sentences = vec![sentence(budget, first)];
    sentences.extend(explained(budget, losses));
    let place = thread_of(budget, first).and_then(|thread| called_from(first, thread));
    // After a sentence about a wait, "its" would be that of the wait.
    let whose = if place.is_some() {
        format!("The largest loss of {}", name(&first.subject))
    } else {
        "Its largest loss".to_owned()
    };
    sentences.extend(place);
    if is_healthy(first.kind)
        && let Some(next) = losses[1..].iter().max_by_key(|loss| loss.ns)
        && let Some(thread) = thread_of(budget, next)
    {
        let share = next.ns as f64 / thread.wall_ns.max(1) as f64;
        let (share, what) = (spoken::share(share), plain(&clause(next, Some(thread)), next, None));
        sentences.push(format!("{whose} is {share} of the run: it {what}."));
    }
    sentences
}

/// The part that has a place is at least one in this many of the loss: where less began is not where the time went.
const PLACED: u64 = 4;

/// `A wait of 20.5 ms began in take (store.c:20); keeper slept in keep (store.c:17).`
fn called_from(loss: &Loss, thread: &ThreadBudget) -> Option<String> {
    let LossPlace { culprit, peer, holder, file, call, .. } = &loss.place;
    let names = [culprit, peer, holder].map(Option::as_deref);
    let mut parts: Vec<&TimePart> = thread.parts.iter().filter(|part| is_of(part, loss)).collect();
    // What the sentence names may be further down the chain: then it is about none of the parts more than about the others.
    narrow(&mut parts, |part| part.who.as_ref().is_some_and(|who| names.contains(&Some(&who.thread))));
    narrow(&mut parts, |part| file.is_some() && part.thing.file == *file);
    narrow(&mut parts, |part| call.is_some() && part.call == *call);
    let all_ns: u64 = parts.iter().map(|part| part.ns).sum();
    parts.retain(|part| part.caller.as_ref().is_some_and(|caller| caller.own().next().is_some()));
    let part = parts.into_iter().max_by_key(|part| part.ns).filter(|part| part.ns >= all_ns / PLACED)?;
    let caller = part.caller.as_deref()?;
    let frame = caller.own().next()?;
    let place = code(&frame.function, &frame.line);
    let began = match loss.times {
        1 => format!("It began in {place}"),
        _ => {
            let what = if part.spent == Spent::SleptLonger { "sleep" } else { "wait" };
            format!("A {what} of {} began in {place}", spoken::duration(caller.ns))
        }
    };
    let other = part.who.as_ref().and_then(|who| {
        let other = who.meanwhile.as_deref()?;
        let frame = other.caller.as_deref()?.own().next()?;
        Some(format!("; {} {} in {}", name(&who.thread), did(other.spent)?, code(&frame.function, &frame.line)))
    });
    Some(format!("{began}{}.", other.unwrap_or_default()))
}

/// Keeps those of which it is true, if it is true of any.
fn narrow(parts: &mut Vec<&TimePart>, is_so: impl Fn(&TimePart) -> bool) {
    if parts.iter().any(|part| is_so(part)) {
        parts.retain(|part| is_so(part));
    }
}

/// All of them, in a section of the full report; `None` where the first sentence has all.
pub(super) fn all(budget: &Budget, losses: &[Loss]) -> Option<Section> {
    let plainly = |loss: &Loss| {
        let thread = thread_of(budget, loss);
        let said = plain(&clause(loss, thread), loss, thread.map(|thread| thread.wall_ns));
        Item::from(format!("{} {said}.", name(&loss.subject)))
    };
    let lost = losses.iter().filter(|loss| loss.kind != LossKind::OnTime).take(LOSSES);
    let items: Vec<Item> = lost.map(plainly).collect();
    (losses.len() > 1).then(|| Section::new("What was lost").with(Block::Items(items)))
}

const fn is_healthy(kind: LossKind) -> bool {
    matches!(kind, LossKind::OnTime | LossKind::Computes | LossKind::Input)
}

/// The sentence of one loss.
fn sentence(budget: &Budget, loss: &Loss) -> String {
    let who = name(&loss.subject);
    let thread = thread_of(budget, loss);
    let wall = thread.map(|thread| thread.wall_ns);
    let turns = thread.and_then(|thread| thread.turns.as_ref());
    if loss.kind == LossKind::OnTime {
        return of_the_punctual(budget, loss);
    }
    let clause = clause(loss, thread);
    let behind = turns.map_or(0, |turns| turns.behind_ns);
    match wall.filter(|wall| !is_healthy(loss.kind) && behind as f64 >= BEHIND * *wall as f64) {
        Some(wall) => {
            let (behind, wall) = (spoken::duration(behind), spoken::duration(wall));
            format!("{who} is {behind} behind after {wall}: {}.", of_the_late(&clause, loss))
        }
        None => format!("{who} {}.", plain(&clause, loss, wall)),
    }
}

/// The share of the delay that the known losses explain, where it is less than half.
fn explained(budget: &Budget, losses: &[Loss]) -> Option<String> {
    let first = losses.first().filter(|loss| !is_healthy(loss.kind))?;
    let thread = thread_of(budget, first)?;
    let behind = thread.turns.as_ref()?.behind_ns;
    let lost = losses.iter().filter(|loss| loss.tid == first.tid && !is_healthy(loss.kind));
    let lost = lost.fold(0u64, |sum, loss| sum.saturating_add(loss.ns));
    let is_little = behind as f64 >= BEHIND * thread.wall_ns as f64 && lost < behind / EXPLAINS;
    is_little.then(|| format!("Its known losses explain {} of that.", spoken::share(lost as f64 / behind as f64)))
}

/// The sentence of a thread without a known loss.
fn of_the_punctual(budget: &Budget, loss: &Loss) -> String {
    let who = name(&loss.subject);
    let thread = thread_of(budget, loss);
    let wall = thread.map(|thread| thread.wall_ns);
    let turns = thread.and_then(|thread| thread.turns.as_ref());
    if let Some(turns) = turns.filter(|turns| turns.missed.saturating_mul(MISSED) > turns.turns) {
        let (missed, all) = (units::count(turns.missed), units::count(turns.turns));
        return format!("{who} misses {missed} of {all} deadlines, and nothing is known to keep it from them.");
    }
    let met = turns.filter(|turns| turns.turns > 0).map(|turns| match turns.missed {
        0 => format!(": it meets all {} deadlines", units::count(turns.turns)),
        missed => format!(": it misses {} of {} deadlines", units::count(missed), units::count(turns.turns)),
    });
    let slept = thread.map_or(0, super::words::asleep);
    let slept = wall
        .filter(|wall| slept as f64 >= ASLEEP * *wall as f64)
        .map(|wall| format!("slept for {} of {}", spoken::duration(slept), spoken::duration(wall)));
    // What /proc shows of a sleep is that it goes on.
    if let (None, Some(slept), BudgetSource::Files) = (&met, &slept, budget.source) {
        return format!("{who} {slept}, and whether it woke up on time is not known.");
    }
    let longer = thread.map_or(0, super::words::slept_longer);
    if let (None, Some(wall)) = (&met, wall.filter(|wall| longer as f64 >= LONGER * *wall as f64)) {
        let [longer, wall] = [longer, wall].map(spoken::duration);
        return format!("{who} slept for {longer} of {wall} longer than it asked for, and the cause is not known.");
    }
    let slept = slept.map(|slept| format!(": it {slept}, as long as it asked"));
    match (met.or(slept), wall) {
        (None, Some(wall)) => {
            let ran = thread.map_or(0, super::words::ran);
            let (ran, wall) = (spoken::duration(ran), spoken::duration(wall));
            format!("{who} ran for {ran} of {wall}, and nothing is known to keep it.")
        }
        (how, _) => format!("{who} is on time{}.", how.unwrap_or_default()),
    }
}

/// `lost 2.25 s of 3.00 s, 229 times: its CPU quota stopped it`, `waited 2 s of 3 s for a lock, 90 times: its holder slept`.
fn plain(clause: &Clause, loss: &Loss, wall: Option<u64>) -> String {
    let of = wall.map_or(String::new(), |wall| format!(" of {}", spoken::duration(wall)));
    let (size, times) = (spoken::duration(loss.ns), times(loss));
    match clause {
        Clause::Cause(cause) => format!("lost {size}{of}{times}: {cause}"),
        Clause::Did { verb, what, detail } => {
            let detail = detail.as_ref().map_or(String::new(), |detail| format!(": {detail}"));
            format!("{verb} {size}{of}{what}{times}{detail}")
        }
    }
}

/// The same after a colon: `its CPU quota stopped it for 2.25 s, 229 times`, `it waited 2 s for a lock, 90 times; its holder slept`.
fn of_the_late(clause: &Clause, loss: &Loss) -> String {
    let (size, times) = (spoken::duration(loss.ns), times(loss));
    match clause {
        Clause::Cause(cause) => format!("{cause} for {size}{times}"),
        Clause::Did { verb, what, detail } => {
            let detail = detail.as_ref().map_or(String::new(), |detail| format!("; {detail}"));
            format!("it {verb} {size}{what}{times}{detail}")
        }
    }
}

/// `, 229 times`; nothing where they are the own work of a program.
fn times(loss: &Loss) -> String {
    match loss.times {
        _ if is_healthy(loss.kind) => String::new(),
        0 => String::new(),
        n => format!(", {}", often(n)),
    }
}

/// `once`, `229 times`.
fn often(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        n => unbroken(&format!("{} times", units::count(n))),
    }
}

/// What this loss is.
fn clause(loss: &Loss, thread: Option<&ThreadBudget>) -> Clause {
    let place = &loss.place;
    let [culprit, peer, call] = [&place.culprit, &place.peer, &place.call].map(|known| known.as_deref().map(name));
    let mostly = place.function.as_deref().map(|function| format!(", most of it in {}", code(function, &place.line)));
    let mostly = mostly.unwrap_or_default();
    let file = place.file.as_deref().map(|path| end_of(path, PATH));
    let cgroup = place.cgroup.as_deref().map(|path| unbroken(&format!("cgroup {}", end_of(path, PATH))));
    let limited = [cgroup.clone(), place.limit.as_deref().map(|limit| unbroken(&name(limit)))];
    let limited: Vec<String> = limited.into_iter().flatten().collect();
    let limited = if limited.is_empty() { String::new() } else { format!(" ({})", limited.join(", ")) };
    let or = |known: &Option<String>, without: &str| known.clone().unwrap_or_else(|| without.to_owned());
    let did = |verb, what: String, detail| Clause::Did { verb, what, detail };
    let (had_it, one) = had_the_cpu(loss, thread);
    let on_which = |then: &str| format!(" for its CPU, on which {had_it} ran{then}");
    let by = |text: &str| culprit.as_ref().map(|culprit| format!("{culprit} {text}"));
    let too_small = || {
        let hits = place.hits.filter(|hits| *hits > 0 && place.limit.is_some()).map(often);
        cgroup.as_ref().map(|cgroup| match hits {
            Some(hits) => format!("its memory limit{limited} was hit {hits}"),
            None => format!("the memory limit of {cgroup} is too small"),
        })
    };
    match loss.kind {
        LossKind::Quota => Clause::Cause(format!("its CPU quota{limited} stopped it")),
        LossKind::ThreadsOverQuota => {
            Clause::Cause(format!("its CPU quota{limited}, too small for its threads, stopped it"))
        }
        LossKind::RtLimit => Clause::Cause(format!("the real-time limit{limited} stopped it")),
        LossKind::DeadlineBudget => Clause::Cause("its SCHED_DEADLINE runtime was used up".to_owned()),
        LossKind::Host => Clause::Cause("the host did not run its virtual CPU".to_owned()),
        LossKind::Stopped => did("was stopped for", String::new(), stopper(&culprit, loss)),
        LossKind::Frozen => did("was frozen for", limited, by("froze it")),
        LossKind::HogThread => {
            did("waited", on_which(if one { ", a thread of its own" } else { ", threads of its own" }), None)
        }
        LossKind::HogProcess if is_kept_by_nobody(thread) => {
            did("waited", " for its CPU".to_owned(), Some("who had it is not known".to_owned()))
        }
        LossKind::HogProcess => {
            did("waited", on_which(if one { ", another process" } else { ", other processes" }), None)
        }
        LossKind::HogFifo => did("waited", on_which(" at a real-time priority"), None),
        LossKind::Polling => {
            did("waited", format!(" for its CPU, on which {} polled", or(&culprit, "its own threads")), None)
        }
        LossKind::Nice => did("waited", on_which(""), thread.and_then(own_policy)),
        LossKind::IdlePolicy => did("waited", on_which(""), Some("its own policy is SCHED_IDLE".to_owned())),
        LossKind::Interrupts => did("lost", format!(" to interrupts{}", bracketed(&culprit)), None),
        LossKind::TimerSlack => {
            let each = spoken::duration(loss.ns / loss.times.max(1));
            let detail = match thread.and_then(|thread| thread.timer_slack_ns) {
                Some(slack) => format!("{each} each on average, with a timer slack of {}", spoken::duration(slack)),
                None => format!("its timer slack delays a sleep by {each} on average"),
            };
            did("slept", " longer than it asked for".to_owned(), Some(detail))
        }
        LossKind::CoarseTimeout => {
            let detail = format!("the time-out of {} counts in ticks of HZ", or(&call, "the call"));
            did("waited", " for time-outs".to_owned(), Some(detail))
        }
        LossKind::Disk => {
            let of_file = file.map_or(String::new(), |file| format!(" of {file}"));
            let call = call.map(|call| format!("{call}{of_file}"));
            let in_threads = place.threads.map_or(String::new(), |threads| {
                format!(" in {}", unbroken(&format!("{} threads", units::count(threads))))
            });
            did("waited", format!(" for the disk{in_threads}"), call)
        }
        LossKind::Lock | LossKind::Chain if place.file_lock => {
            let of = file.map_or_else(|| "a lock of a file".to_owned(), |file| format!("the lock of {file}"));
            did("waited", format!(" for {of}"), tries(loss).or_else(|| holder(loss, thread)))
        }
        // To the kernel, a monitor of Java is a condition variable, as what its threads signal each other by.
        LossKind::Lock if place.threads.is_some() => {
            let takers = place
                .threads
                .map(|threads| format!("{} take it in turn", unbroken(&format!("{} threads", units::count(threads)))));
            did("waited", " for a lock".to_owned(), takers)
        }
        LossKind::Lock if place.lock.is_none() && place.holder.is_some() => did(
            "waited",
            " for a lock or a signal".to_owned(),
            meanwhile(&place.holder.as_deref().map(name), loss, thread),
        ),
        LossKind::Lock | LossKind::Chain => did("waited", " for a lock".to_owned(), holder(loss, thread)),
        LossKind::Condition => {
            let passed_on = peer.as_ref().map(|peer| format!("that thread waited for {peer}, another process"));
            let detail = passed_on.or_else(|| meanwhile(&culprit, loss, thread));
            let by = if is_of_another_process(&culprit, thread) { "process" } else { "thread" };
            did("waited", format!(" for a signal of another {by}"), detail)
        }
        LossKind::Barrier => did("waited", " at a barrier".to_owned(), by("arrived last")),
        LossKind::Pipe | LossKind::MessageQueue => {
            let at = if loss.kind == LossKind::Pipe { " at a pipe" } else { " at a message queue" };
            let room = call.map(|call| format!("{call} waited for room"));
            did("waited", at.to_owned(), room.or_else(|| meanwhile(&peer, loss, thread)))
        }
        LossKind::Socket => {
            let sends = call.map(|call| match call.as_str() {
                CONNECT => format!("{call} waited for the other end to answer"),
                _ => format!("{call} waited for room in the send buffer"),
            });
            did("waited", " at a socket".to_owned(), sends.or_else(|| meanwhile(&peer, loss, thread)))
        }
        LossKind::StarvedServer => {
            let detail = match culprit {
                Some(culprit) => format!("that waited for its CPU, on which {culprit} ran"),
                None => "that was kept from its CPU".to_owned(),
            };
            did("waited", format!(" for {}", or(&peer, "another process")), Some(detail))
        }
        LossKind::DelayedAck => {
            // Where no other end is known, the waiting one delays it.
            let detail = match peer {
                Some(_) => "TCP holds data back for an acknowledgement that the other end delays",
                None => "the other end holds data back for an acknowledgement that this end delays",
            };
            did("waited", " at a TCP socket".to_owned(), Some(detail.to_owned()))
        }
        LossKind::FaultFile => {
            did("lost", format!(" in page faults that read {}", file.unwrap_or_else(|| "from a disk".to_owned())), None)
        }
        LossKind::FaultSwap => did("lost", " in page faults that read swap".to_owned(), too_small()),
        LossKind::FaultCopy => {
            let what = match call {
                Some(_) => " in forks and page faults that copy what a child shares",
                None => " in page faults that copy pages",
            };
            did("lost", what.to_owned(), None)
        }
        LossKind::FaultNew => did("lost", " in page faults that take new memory".to_owned(), None),
        LossKind::Reclaim => {
            let reclaimed = thread.map_or(0, super::words::reclaimed);
            let what = if cgroup.is_some() && reclaimed <= loss.ns / 2 {
                " in page faults that read again what was dropped"
            } else {
                " to the reclaim of memory"
            };
            did("lost", what.to_owned(), too_small())
        }
        LossKind::MmapLock => {
            did("waited", " for the lock of its address space".to_owned(), by("maps and unmaps memory"))
        }
        LossKind::Child => did("waited", format!(" for the end of {}", or(&culprit, "a child")), None),
        LossKind::Spawn => {
            let did_meanwhile = longest(loss, thread, place.culprit.as_deref());
            let detail = did_meanwhile.map(|did| format!("they {did} meanwhile"));
            did("waited", " for new processes to execute their programs".to_owned(), detail)
        }
        LossKind::Tracer => {
            let tracer = culprit.map_or(String::new(), |tracer| format!(", {tracer}"));
            did("lost", format!(" in stops for its tracer{tracer}"), None)
        }
        LossKind::Supervisor => did("waited", " for a supervisor of its calls (seccomp)".to_owned(), by("answers")),
        LossKind::OwnWork => {
            did("computed for", String::new(), Some(format!("its turns take longer than their period{mostly}")))
        }
        LossKind::EventLoop => {
            let detail = call.map(|call| format!("a handler sleeps ({call})"));
            did("kept its event loop from other events for", String::new(), detail)
        }
        LossKind::Allocator => {
            let detail = "it takes memory from the kernel and gives it back";
            did("lost", " in page faults and unmaps".to_owned(), Some(detail.to_owned()))
        }
        LossKind::Collector => match &place.function {
            Some(function) => {
                let most = format!("{} took the most", end_of(function, PATH));
                did("ran for", " in its garbage collector".to_owned(), Some(most))
            }
            None => did("waited", " for its garbage collector".to_owned(), None),
        },
        LossKind::InterpreterLock => did("waited", " for the interpreter's lock".to_owned(), by("had it")),
        LossKind::Computes => did("computed for", String::new(), Some(format!("its time is its own{mostly}"))),
        LossKind::Input => {
            let ended = call.map(|call| format!("{call} timed out {}", often(loss.times)));
            did("waited for input for", String::new(), ended.or_else(|| meanwhile(&peer, loss, thread)))
        }
        LossKind::Unknown if is_at_a_futex(loss, thread) => {
            did("waited", " for a lock or a signal".to_owned(), Some("who ended the waits is not known".to_owned()))
        }
        LossKind::Unknown => did("was blocked for", String::new(), Some("the cause is unknown".to_owned())),
        LossKind::OnTime => did("is on time, and lost", String::new(), None),
    }
}

/// Who sent the signal of a stop, or why the kernel did.
fn stopper(sender: &Option<String>, loss: &Loss) -> Option<String> {
    let Some(Stop { signal, by_kernel }) = loss.place.stop else {
        // Records without the signal name the reader of a terminal as the sender of the kernel's own signal.
        let other = sender.as_ref().filter(|_| loss.place.culprit.as_ref() != Some(&loss.subject));
        return other.map(|sender| format!("{sender} sent the signal"));
    };
    let text = signal.name();
    Some(match (sender, signal) {
        (Some(sender), _) => format!("{sender} sent {text}"),
        (None, _) if !by_kernel => format!("the signal was {text}"),
        (None, StopSignal::Stop) => format!("the kernel sent {text}"),
        (None, StopSignal::Tstp) => format!("its terminal sent {text}, as Ctrl-Z does"),
        (None, StopSignal::Ttin) => format!("its job read from the terminal in the background ({text})"),
        (None, StopSignal::Ttou) => format!("its job wrote to the terminal, or set it, in the background ({text})"),
    })
}

/// Who had the CPU meanwhile, and whether that is one alone: it had it for at least half of the time.
fn had_the_cpu(loss: &Loss, thread: Option<&ThreadBudget>) -> (String, bool) {
    let Some(culprit) = loss.place.culprit.as_deref() else { return ("others".to_owned(), false) };
    let is_its =
        |part: &&TimePart| part.spent == Spent::Ready && part.who.as_ref().is_some_and(|who| who.thread == culprit);
    let parts = thread.into_iter().flat_map(|thread| thread.parts.iter().filter(is_its));
    let its = parts.fold(0u64, |sum, part| sum.saturating_add(part.ns));
    let one = its == 0 || its.saturating_mul(2) >= loss.ns;
    (if one { name(culprit) } else { format!("{} and others", name(culprit)) }, one)
}

/// Whether counters alone show that it waited for its CPU.
fn is_kept_by_nobody(thread: Option<&ThreadBudget>) -> bool {
    let queued = thread.into_iter().flat_map(|thread| &thread.parts).filter(|part| part.spent == Spent::Ready);
    let mut queued = queued.peekable();
    queued.peek().is_some() && queued.all(|part| part.who.is_none())
}

/// Whether the thread spent most of an unknown wait at futexes, and nobody is known to have ended it.
fn is_at_a_futex(loss: &Loss, thread: Option<&ThreadBudget>) -> bool {
    let waits = |part: &&TimePart| part.spent == Spent::Condition && part.who.is_none();
    let parts = thread.into_iter().flat_map(|thread| &thread.parts).filter(waits);
    parts.fold(0u64, |sum, part| sum.saturating_add(part.ns)) > loss.ns / 2
}

fn bracketed(known: &Option<String>) -> String {
    known.as_ref().map_or(String::new(), |text| format!(" ({text})"))
}

fn own_policy(thread: &ThreadBudget) -> Option<String> {
    let ThreadPolicy::Fair(nice) = thread.policy else { return None };
    Some(format!("its own nice value is {nice}"))
}

/// `it slept between its tries, while writer-2 had it`; nothing where the kernel made it wait.
fn tries(loss: &Loss) -> Option<String> {
    loss.place.call.as_deref().filter(|call| SLEEPS.contains(call))?;
    let holder = loss.place.holder.as_deref().map(|holder| format!(", while {} had it", name(holder)));
    Some(format!("it slept between its tries{}", holder.unwrap_or_default()))
}

/// `its holder, holder-2, slept meanwhile`.
fn holder(loss: &Loss, thread: Option<&ThreadBudget>) -> Option<String> {
    let place = &loss.place;
    let its_name = place.holder.as_deref()?;
    let holder = format!("{}{}", name(its_name), number_of_namesake(loss, thread, Some(its_name)));
    let [culprit, file] = [&place.culprit, &place.file].map(|known| known.as_deref());
    Some(match (loss.kind, culprit, file) {
        (LossKind::Chain, Some(root), _) => format!("its holder, {holder}, waited for {}", name(root)),
        (_, Some(other), _) => format!("its holder, {holder}, waited for its CPU, on which {} ran", name(other)),
        (_, _, Some(file)) if !place.file_lock => {
            format!("its holder, {holder}, waited for the disk ({})", end_of(file, PATH))
        }
        _ => match longest(loss, thread, place.holder.as_deref()) {
            Some(what) => format!("its holder, {holder}, {what} meanwhile"),
            None => format!("its holder is {holder}"),
        },
    })
}

/// Whether the thread of this name, of which this one waits for a signal, is one of another process.
fn is_of_another_process(culprit: &Option<String>, thread: Option<&ThreadBudget>) -> bool {
    let signals = thread.into_iter().flat_map(|thread| thread.parts.iter().map(move |part| (thread, part)));
    let waits = signals.filter(|(_, part)| part.spent == Spent::Condition).filter_map(|(thread, part)| {
        let who = part.who.as_ref().filter(|who| culprit.as_ref() == Some(&name(&who.thread)))?;
        Some((part.ns, who.pid != thread.pid))
    });
    waits.max().is_some_and(|(_, other)| other)
}

/// `feeder-31 slept meanwhile`.
fn meanwhile(who: &Option<String>, loss: &Loss, thread: Option<&ThreadBudget>) -> Option<String> {
    let LossPlace { culprit, peer, holder, .. } = &loss.place;
    let kernel_name = culprit.as_deref().or(peer.as_deref()).or(holder.as_deref());
    let who = format!("{}{}", who.as_ref()?, number_of_namesake(loss, thread, kernel_name));
    Some(match longest(loss, thread, kernel_name) {
        Some(what) => format!("{who} {what} meanwhile"),
        None if loss.times == 1 => format!("{who} ended the wait"),
        None => format!("{who} ended the waits"),
    })
}

/// ` (4712)` where the other thread has the name of the one that is spoken of.
fn number_of_namesake(loss: &Loss, thread: Option<&ThreadBudget>, who: Option<&str>) -> String {
    let namesake = who.filter(|who| *who == loss.subject).and_then(|_| longest_wait(loss, thread, who)?.who.as_ref());
    namesake.filter(|who| who.tid != 0).map_or(String::new(), |who| unbroken(&format!(" ({})", who.tid)))
}

/// What that thread did in the longest of the waits for it.
fn longest(loss: &Loss, thread: Option<&ThreadBudget>, who: Option<&str>) -> Option<&'static str> {
    did(longest_wait(loss, thread, who)?.who.as_ref()?.meanwhile.as_ref()?.spent)
}

/// The longest of the waits for that thread.
fn longest_wait<'a>(loss: &Loss, thread: Option<&'a ThreadBudget>, who: Option<&str>) -> Option<&'a TimePart> {
    let is_it = |part: &&TimePart| {
        super::words::is_of(part, loss) && part.who.as_ref().map(|other| other.thread.as_str()) == who
    };
    thread?.parts.iter().filter(is_it).max_by_key(|part| part.ns)
}
