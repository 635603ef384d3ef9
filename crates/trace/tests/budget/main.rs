//! Budgets of threads with one ailment each: the sums have it, with its size, and are the wall time.

mod ailments;
mod limits;
mod load;
mod locks;
mod sums;

use std::time::{Duration, Instant};

use punctual_record::{Budget, Spent, ThreadBudget, TimePart};
use punctual_trace::{Ledger, Target};

/// Whether the kernel takes the programs; where it does not, that is said.
pub(crate) fn may_sum() -> bool {
    if !punctual_testing::needs_root("to load programs into the kernel") {
        return false;
    }
    let has_types = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    if !has_types {
        punctual_testing::lacks(punctual_testing::Lack::File("/sys/kernel/btf/vmlinux"));
    }
    has_types
}

/// A ledger over this thread and those that it creates; None where the kernel refuses, which is said.
pub(crate) fn ledger() -> Option<Ledger> {
    if !may_sum() {
        return None;
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    Some(Ledger::begin(&Target { tids: vec![own], with_children: true }).unwrap())
}

/// What a new thread of this name did, and the budget of all.
pub(crate) fn watched(name: &str, work: impl FnOnce() + Send) -> Option<(ThreadBudget, Budget)> {
    // All threads of this process are watched.
    let _alone = punctual_testing::alone();
    let mut ledger = ledger()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
        let thread = thread.unwrap();
        while !thread.is_finished() {
            ledger.look();
            std::thread::sleep(Duration::from_millis(10));
        }
        thread.join().unwrap();
    });
    let budget = ledger.end().unwrap();
    let thread = budget.threads.iter().find(|thread| thread.thread == name).cloned();
    Some((thread.unwrap_or_else(|| panic!("no {name}: {:?}", names(&budget))), budget))
}

fn names(budget: &Budget) -> Vec<&str> {
    budget.threads.iter().map(|thread| thread.thread.as_str()).collect()
}

/// The parts of this kind.
pub(crate) fn spent(thread: &ThreadBudget, kind: Spent) -> Vec<&TimePart> {
    thread.parts.iter().filter(|part| part.spent == kind).collect()
}

/// Their sum, ns.
pub(crate) fn ns(thread: &ThreadBudget, kind: Spent) -> u64 {
    spent(thread, kind).iter().map(|part| part.ns).sum()
}

/// The parts are the wall time, and next to nothing of it is unknown.
pub(crate) fn assert_whole(thread: &ThreadBudget) {
    let sum: u64 = thread.parts.iter().map(|part| part.ns).sum();
    assert_eq!(sum, thread.wall_ns, "{thread:?}");
    let unknown = ns(thread, Spent::Unknown);
    assert!(unknown as f64 <= 1e-3 * thread.wall_ns as f64 + 20_000.0, "{unknown} of {}: {thread:?}", thread.wall_ns);
}

/// Computes for this long of CPU time.
pub(crate) fn compute(time: Duration) {
    let cpu = || Duration::from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into_duration());
    let begin = cpu();
    while cpu() - begin < time {
        std::hint::spin_loop();
    }
}

trait Time {
    fn try_into_duration(self) -> Duration;
}

impl Time for rustix::time::Timespec {
    fn try_into_duration(self) -> Duration {
        Duration::new(self.tv_sec as u64, self.tv_nsec as u32)
    }
}

/// How long this takes.
pub(crate) fn took(work: impl FnOnce()) -> u64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_nanos() as u64
}
