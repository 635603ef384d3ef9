//! Runtimes of languages: their locks and their threads, which the kernel does not tell from those of the program.

use punctual_record::{Budget, LossPlace, Spent, ThreadBudget, TimePart, interprets};

use super::sort::{share, spent};

/// CPython's interpreter lock is given up on demand after a switch interval: 5 ms unless the program sets another.
const SWITCH_NS: [u64; 2] = [2_000_000, 15_000_000];
/// A thread that runs or is ready for this share of its time computes.
const COMPUTES: f64 = 0.5;
/// Fewer waits show no habit.
const OFTEN: u64 = 10;
const FUTEX: &str = "futex";
/// A thread of Go's runtime looks after the others, and sleeps by this call between. The sleeps of glibc are clock_nanosleep(2).
const GO_SLEEPS: &str = "nanosleep";
/// Functions of Go's collector, by how their names begin (runtime/mgc*.go, runtime/mheap.go).
const GO_COLLECTOR: [&str; 13] = [
    "runtime.gc",
    "runtime.scan",
    "runtime.grey",
    "runtime.mark",
    "runtime.tryDeferToSpanScan",
    "runtime.extractHeapBits",
    "runtime.spanSetScans",
    "runtime.findObject",
    "runtime.heapBits",
    "runtime.(*gc",
    "runtime.sweep",
    "runtime.bgsweep",
    "runtime.(*sweep",
];
/// Go's collector is made to take this part of a program's CPUs while it works (gcBackgroundUtilization, runtime/mgcpacer.go).
const GO_COLLECTS: f64 = 0.25;
/// The process of HotSpot.
pub(super) const JAVA: &str = "java";

/// Threads of HotSpot that serve the others, beside its collectors.
const HOUSEKEEPERS: [&str; 10] = [
    "Service Thread",
    "Signal Dispatch",
    "Reference Handl",
    "Finalizer",
    "C1 Compiler",
    "C2 Compiler",
    "VM Periodic Tas",
    "Common-Cleaner",
    "Notification Th",
    "Monitor Deflati",
];

/// Whether it ran in Go's collector.
pub(super) fn is_of_collector(part: &TimePart) -> bool {
    let function = part.thing.function.as_deref();
    part.spent == Spent::Running
        && function.is_some_and(|name| GO_COLLECTOR.iter().any(|start| name.starts_with(start)))
}

/// The function in which Go's collector ran most, where it took more of this thread's CPU time than it is made to.
pub(super) fn collects_itself(thread: &ThreadBudget) -> Option<&str> {
    let ran = spent(thread, |part| part.spent == Spent::Running);
    let most = thread.parts.iter().filter(|part| is_of_collector(part)).max_by_key(|part| part.ns)?;
    let collected = spent(thread, is_of_collector);
    (collected as f64 > GO_COLLECTS * ran as f64).then_some(most.thing.function.as_deref()?)
}

/// Where the thread ran for more than half of its time on a CPU: the function and its line; none where that runs what an interpreter reads.
pub(super) fn mostly_in(thread: &ThreadBudget) -> LossPlace {
    let running = |part: &&TimePart| part.spent == Spent::Running;
    let all = thread.parts.iter().filter(running).fold(0u64, |sum, part| sum.saturating_add(part.ns));
    let most = thread.parts.iter().filter(running).find(|part| part.thing.function.is_some() && part.ns > all / 2);
    let thing = most.map(|part| part.thing.clone()).unwrap_or_default();
    if thing.function.as_deref().is_some_and(interprets) {
        return LossPlace::default();
    }
    LossPlace { function: thing.function, line: thing.line, ..LossPlace::default() }
}

/// Whether this thread serves the others of its program.
pub(super) fn keeps_house(thread: &ThreadBudget) -> bool {
    let named = |start: &str| thread.thread.starts_with(start);
    thread.process == JAVA && (HOUSEKEEPERS.iter().any(|start| named(start)) || collects(&thread.thread))
}

/// Whether this thread is of an interpreter of Python.
pub(super) fn is_python(thread: &ThreadBudget) -> bool {
    thread.process.starts_with("python")
}

/// The thread of a Python program that has the interpreter's lock while this one wants it. A wait for it times out after a switch interval,
/// then asks for it, and goes on until the holder gives it up.
pub(super) fn interpreter<'a>(thread: &'a ThreadBudget, budget: &'a Budget) -> Option<&'a str> {
    if !is_python(thread) {
        return None;
    }
    let others = || budget.threads.iter().filter(|other| other.pid == thread.pid && other.tid != thread.tid);
    let computes = |other: &ThreadBudget| {
        share(spent(other, |part| matches!(part.spent, Spent::Running | Spent::Ready)), other) >= COMPUTES
    };
    let holder = |part: &'a TimePart| {
        let who = part.who.as_ref().filter(|who| part.spent == Spent::Condition && who.pid == thread.pid)?;
        // Threads of one name have one number, maybe that of this thread.
        let mut namesakes = others().filter(|other| other.thread == who.thread);
        namesakes.any(computes).then_some((part, who.thread.as_str()))
    };
    let (_, holder) = thread.parts.iter().filter_map(holder).max_by_key(|(part, _)| part.ns)?;
    let waits = |is_so: &dyn Fn(&TimePart) -> bool| {
        let parts = thread.parts.iter().filter(|part| is_so(part) && is_for_interpreter(part, holder));
        parts.fold((0u64, 0u64), |(ns, times), part| (ns.saturating_add(part.ns), times.saturating_add(part.times)))
    };
    let (slept_ns, slept) = waits(&|part| part.spent == Spent::Asleep);
    let (kept_ns, kept) = waits(&|part| part.spent == Spent::Condition);
    let as_often = slept.saturating_mul(2) >= kept && kept.saturating_mul(2) >= slept;
    let mean = slept_ns.saturating_add(kept_ns) / slept.max(1);
    (kept >= OFTEN && as_often && (SWITCH_NS[0]..=SWITCH_NS[1]).contains(&mean)).then_some(holder)
}

/// Whether this wait is for the interpreter's lock, which this thread has.
pub(super) fn is_for_interpreter(part: &TimePart, holder: &str) -> bool {
    let futex = part.call.as_deref() == Some(FUTEX);
    match part.spent {
        Spent::Asleep | Spent::SleptLonger => futex,
        Spent::Condition => part.who.as_ref().is_some_and(|who| who.thread == holder),
        _ => false,
    }
}

/// Whether other threads of this thread's name go on with its work, so that a wait for one of them may be one for work: those of a pool, and
/// in Go the main thread too. Elsewhere a name shows nothing of the main thread: those that it makes have its name unless they get another.
pub(super) fn shares_work(thread: &ThreadBudget, budget: &Budget) -> bool {
    let sleeps = |part: &TimePart| {
        matches!(part.spent, Spent::Asleep | Spent::SleptLonger) && part.call.as_deref() == Some(GO_SLEEPS)
    };
    let mut namesakes = budget.threads.iter().filter(|other| other.pid == thread.pid && other.thread == thread.thread);
    thread.tid != thread.pid || namesakes.any(|other| other.parts.iter().any(sleeps))
}

/// Threads of HotSpot that collect garbage, or stop the others for it.
pub(super) fn collects(name: &str) -> bool {
    ["VM Thread", "GC Thread", "G1 ", "ZWorker", "ZDriver", "Shenandoah"].iter().any(|start| name.starts_with(start))
}
