//! What a thread did with its time, in words.

use punctual_record::{BudgetSource, Loss, LossKind, SourceLine, Spent, ThreadBudget, TimePart};

use crate::format::unbroken;

use super::super::phrase::name;

/// Characters of a path or of a control group, and of a remedy that has one.
const PATH: usize = 60;

/// A path, on one line and short.
pub(super) fn path(text: &str) -> String {
    punctual_record::sanitize::line(text, 2 * PATH)
}

/// A path or a control group from its end on: that tells it from others.
pub(super) fn end_of(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    let cut = letters.len().saturating_sub(most);
    let end: String = letters[cut..].iter().collect();
    let end = punctual_record::sanitize::line(&end, most);
    if cut == 0 { end } else { format!("…{end}") }
}

/// What a row of the table is.
pub(super) const fn label(spent: Spent, source: BudgetSource) -> &'static str {
    match spent {
        // What /proc shows of a sleep is that it goes on.
        Spent::Asleep if matches!(source, BudgetSource::Files) => "asleep",
        // The state of a thread does not tell a lock from a condition variable.
        Spent::Condition if matches!(source, BudgetSource::Files) => "waiting for a lock or a signal",
        Spent::FaultFile if matches!(source, BudgetSource::Files) => "page faults, from a disk",
        Spent::Running => "running",
        Spent::Interrupted => "interrupts on its CPU",
        Spent::Host => "the host ran others",
        Spent::Ready => "ready, not running",
        Spent::ThrottledByQuota => "CPU quota used up",
        Spent::ThrottledRealTime => "real-time limit used up",
        Spent::ThrottledDeadline => "deadline runtime used up",
        Spent::Stopped => "stopped by a signal",
        Spent::Traced => "stopped for a tracer",
        Spent::Frozen => "frozen",
        Spent::Asleep => "asleep as long as asked",
        Spent::SleptLonger => "asleep longer than asked",
        Spent::Disk => "waiting for a disk",
        Spent::Lock => "waiting for a lock",
        Spent::FileLock => "waiting for a file's lock",
        Spent::Condition => "waiting for a signal",
        Spent::Pipe => "waiting at a pipe",
        Spent::MessageQueue => "waiting at a message queue",
        Spent::Socket => "waiting at a socket",
        Spent::Poll => "waiting for any event",
        Spent::OtherFile => "waiting for another file",
        Spent::FaultFile => "page faults, from a file",
        Spent::FaultSwap => "page faults, from swap",
        Spent::FaultCopy => "page faults, copies",
        Spent::FaultNew => "page faults, new pages",
        Spent::Reclaim => "reclaiming memory",
        Spent::MmapLock => "waiting for the address space",
        Spent::Child => "waiting for a child",
        Spent::Spawn => "waiting for a child to start",
        Spent::Pause => "paused until a signal",
        Spent::Supervisor => "waiting for a supervisor",
        Spent::Blocked => "blocked, cause unknown",
        Spent::Unknown => "unknown",
    }
}

/// What another thread did meanwhile.
pub(super) const fn did(spent: Spent) -> Option<&'static str> {
    Some(match spent {
        Spent::Running | Spent::Interrupted => "computed",
        Spent::Ready => "waited for a CPU",
        Spent::Asleep | Spent::SleptLonger => "slept",
        Spent::Disk => "waited for the disk",
        Spent::ThrottledByQuota => "had used up its CPU quota",
        Spent::Stopped | Spent::Traced => "was stopped",
        Spent::Frozen => "was frozen",
        Spent::FaultFile | Spent::FaultSwap | Spent::FaultCopy | Spent::FaultNew => "was in page faults",
        Spent::Reclaim => "reclaimed memory",
        _ => return None,
    })
}

/// The file of a part: its path, but of a program or a library that ran its name.
pub(super) fn file_name(part: &TimePart) -> Option<&str> {
    let path = part.thing.file.as_deref()?;
    Some(if part.spent == Spent::Running { path.rsplit('/').next().unwrap_or(path) } else { path })
}

/// `filter.cpp:42`.
pub(super) fn source_line(line: &SourceLine) -> String {
    /// Characters of the name of a source file.
    const SOURCE: usize = 24;
    format!("{}:{}", end_of(&line.file, SOURCE), line.line)
}

/// `take (store.c:20)`.
pub(super) fn code(function: &str, line: &Option<SourceLine>) -> String {
    /// Characters of a function.
    const FUNCTION: usize = 40;
    let line = line.as_ref().map_or(String::new(), |line| unbroken(&format!(" ({})", source_line(line))));
    format!("{}{line}", end_of(function, FUNCTION))
}

/// Who and what of a part: `thief-31`, `fdatasync, journal`, `holder-2, slept`.
pub(super) fn what(part: &TimePart) -> Option<String> {
    /// Characters of a path in a cell.
    const CELL: usize = 24;
    let thing = &part.thing;
    let place =
        thing.function.as_deref().or_else(|| file_name(part)).or(thing.device.as_deref()).or(thing.cgroup.as_deref());
    let meanwhile = part.who.as_ref().and_then(|who| did(who.meanwhile.as_ref()?.spent));
    let call = part.call.as_deref().filter(|_| !matches!(part.spent, Spent::Running | Spent::Ready));
    let who = part.who.as_ref().map(|who| name(&who.thread));
    let texts = [
        who.clone(),
        meanwhile.map(str::to_owned),
        call.filter(|_| who.is_none()).map(name),
        place.map(|path| end_of(path, CELL)),
        thing.stop.map(|stop| stop.signal.name().to_owned()),
    ];
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Whether this part belongs to a loss of this kind.
pub(super) const fn belongs(spent: Spent, kind: LossKind) -> bool {
    match kind {
        LossKind::Quota | LossKind::ThreadsOverQuota => matches!(spent, Spent::ThrottledByQuota),
        LossKind::RtLimit => matches!(spent, Spent::ThrottledRealTime),
        LossKind::DeadlineBudget => matches!(spent, Spent::ThrottledDeadline),
        LossKind::Stopped => matches!(spent, Spent::Stopped),
        LossKind::Frozen => matches!(spent, Spent::Frozen),
        LossKind::HogThread
        | LossKind::HogProcess
        | LossKind::HogFifo
        | LossKind::Nice
        | LossKind::IdlePolicy
        | LossKind::Polling => matches!(spent, Spent::Ready),
        LossKind::Interrupts => matches!(spent, Spent::Interrupted),
        LossKind::Host => matches!(spent, Spent::Host),
        LossKind::TimerSlack => matches!(spent, Spent::SleptLonger),
        LossKind::Disk => matches!(spent, Spent::Disk),
        LossKind::Lock | LossKind::Chain => matches!(spent, Spent::Lock | Spent::FileLock | Spent::Condition),
        // A thread of its own may signal by an eventfd.
        LossKind::Condition => matches!(spent, Spent::Condition | Spent::Poll | Spent::OtherFile),
        LossKind::Barrier | LossKind::InterpreterLock => matches!(spent, Spent::Condition),
        LossKind::Collector => matches!(spent, Spent::Condition | Spent::Running),
        LossKind::Pipe => matches!(spent, Spent::Pipe),
        LossKind::MessageQueue => matches!(spent, Spent::MessageQueue),
        LossKind::CoarseTimeout | LossKind::Socket | LossKind::StarvedServer | LossKind::DelayedAck => {
            matches!(spent, Spent::Socket)
        }
        LossKind::FaultFile => matches!(spent, Spent::FaultFile),
        LossKind::FaultSwap => matches!(spent, Spent::FaultSwap | Spent::Reclaim),
        LossKind::FaultCopy => matches!(spent, Spent::FaultCopy),
        LossKind::Reclaim => matches!(spent, Spent::Reclaim | Spent::FaultFile),
        LossKind::MmapLock => matches!(spent, Spent::MmapLock | Spent::Blocked),
        // An event loop hears of its end by a pipe.
        LossKind::Child => matches!(spent, Spent::Child | Spent::Poll),
        LossKind::Spawn => matches!(spent, Spent::Spawn),
        LossKind::Tracer => matches!(spent, Spent::Traced),
        LossKind::Supervisor => matches!(spent, Spent::Supervisor),
        LossKind::FaultNew | LossKind::Allocator => matches!(spent, Spent::FaultNew),
        LossKind::EventLoop => matches!(spent, Spent::Asleep),
        LossKind::OwnWork | LossKind::Computes => matches!(spent, Spent::Running),
        LossKind::Unknown => matches!(spent, Spent::Blocked | Spent::Unknown | Spent::Condition),
        LossKind::OnTime => false,
        LossKind::Input => {
            matches!(
                spent,
                Spent::Pipe | Spent::MessageQueue | Spent::Socket | Spent::Poll | Spent::OtherFile | Spent::Pause
            )
        }
    }
}

/// Whether the loss is made of this part. The loss of a lock has the waits for that lock alone.
pub(super) fn is_of(part: &TimePart, loss: &Loss) -> bool {
    let is_the_lock = match &loss.place.lock {
        Some(lock) => part.spent == Spent::Lock && part.thing.futex.is_some_and(|at| format!("{at:#x}") == *lock),
        None => !loss.place.file_lock || part.spent == Spent::FileLock,
    };
    belongs(part.spent, loss.kind) && is_the_lock
}

/// The time of a thread that a loss of this kind is made of, ns.
pub(super) fn spent(thread: &ThreadBudget, loss: &Loss) -> u64 {
    let parts = thread.parts.iter().filter(|part| belongs(part.spent, loss.kind));
    parts.fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// For how long a thread slept, as long as it asked, ns.
pub(super) fn asleep(thread: &ThreadBudget) -> u64 {
    sum_of(thread, Spent::Asleep)
}

/// For how long a thread slept beyond what it asked for, ns.
pub(super) fn slept_longer(thread: &ThreadBudget) -> u64 {
    sum_of(thread, Spent::SleptLonger)
}

/// For how long a thread reclaimed memory, ns.
pub(super) fn reclaimed(thread: &ThreadBudget) -> u64 {
    sum_of(thread, Spent::Reclaim)
}

/// For how long a thread ran, ns.
pub(super) fn ran(thread: &ThreadBudget) -> u64 {
    sum_of(thread, Spent::Running)
}

fn sum_of(thread: &ThreadBudget, spent: Spent) -> u64 {
    let parts = thread.parts.iter().filter(|part| part.spent == spent);
    parts.fold(0, |sum, part| sum.saturating_add(part.ns))
}
