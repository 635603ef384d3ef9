//! Budgets that a kind of loss must come from, and others, nearly the same, that it must not come from.

use proptest::prelude::*;
use punctual_record::{
    Budget, BudgetSource, Loss, LossKind, MemoryLimit, Quota, SourceLine, Spent, Steal, Stop, StopSignal, Thing,
    ThreadBudget, ThreadPolicy, TimePart, Turns, Who,
};

use super::losses;

mod kept;
mod leads;
mod waits;

const MS: u64 = 1_000_000;
const WALL: u64 = 3_000 * MS;
const PROGRAM: u32 = 100;
const WATCHER: u32 = 700;

fn part(spent: Spent, ms: u64, times: u64) -> TimePart {
    TimePart { spent, ns: ms * MS, times, longest_ns: ms * MS / times.max(1), ..TimePart::default() }
}

fn in_call(call: &str, part: TimePart) -> TimePart {
    TimePart { call: Some(call.into()), ..part }
}

fn by(who: Who, part: TimePart) -> TimePart {
    TimePart { who: Some(who), ..part }
}

fn at(thing: Thing, part: TimePart) -> TimePart {
    TimePart { thing, ..part }
}

fn cgroup(path: &str) -> Thing {
    Thing { cgroup: Some(path.into()), ..Thing::default() }
}

fn file(path: &str) -> Thing {
    Thing { file: Some(path.into()), ..Thing::default() }
}

fn futex(address: u64) -> Thing {
    Thing { futex: Some(address), ..Thing::default() }
}

fn sibling(name: &str) -> Who {
    Who { thread: name.into(), tid: 101, process: "server".into(), pid: PROGRAM, ..Who::default() }
}

fn stranger(name: &str) -> Who {
    Who { thread: name.into(), tid: 900, process: name.into(), pid: 900, ..Who::default() }
}

fn with_policy(policy: ThreadPolicy, who: Who) -> Who {
    Who { policy, ..who }
}

fn meanwhile(did: TimePart, who: Who) -> Who {
    Who { meanwhile: Some(Box::new(did)), ..who }
}

fn thread(tid: u32, name: &str, parts: Vec<TimePart>) -> ThreadBudget {
    let known: u64 = parts.iter().map(|part| part.ns).sum();
    let mut parts = parts;
    let rest = TimePart { spent: Spent::Asleep, ns: WALL - known, times: 100, ..TimePart::default() };
    parts.push(in_call("clock_nanosleep", rest));
    let (thread, process) = (name.into(), "server".into());
    ThreadBudget { thread, tid, process, pid: PROGRAM, wall_ns: WALL, parts, ..ThreadBudget::default() }
}

fn main(parts: Vec<TimePart>) -> ThreadBudget {
    thread(PROGRAM, "server", parts)
}

fn of(threads: Vec<ThreadBudget>) -> Budget {
    Budget { threads, watcher: Some(WATCHER), ..Budget::default() }
}

fn judged(parts: Vec<TimePart>) -> Vec<Loss> {
    losses(&of(vec![main(parts)]), PROGRAM)
}

/// The thread of Go's runtime that looks after the others.
fn of_go() -> ThreadBudget {
    thread(PROGRAM + 50, "server", vec![in_call("nanosleep", part(Spent::Asleep, 900, 4000))])
}

/// The first loss of a main thread that is of a program in Go.
fn first_in_go(parts: Vec<TimePart>) -> Loss {
    losses(&of(vec![main(parts), of_go()]), PROGRAM).swap_remove(0)
}

fn first(parts: Vec<TimePart>) -> Loss {
    judged(parts).swap_remove(0)
}

fn kind(parts: Vec<TimePart>) -> LossKind {
    first(parts).kind
}

const ALL: [Spent; 33] = [
    Spent::Running,
    Spent::Interrupted,
    Spent::Host,
    Spent::Ready,
    Spent::ThrottledByQuota,
    Spent::ThrottledRealTime,
    Spent::ThrottledDeadline,
    Spent::Stopped,
    Spent::Traced,
    Spent::Frozen,
    Spent::Asleep,
    Spent::SleptLonger,
    Spent::Disk,
    Spent::Lock,
    Spent::FileLock,
    Spent::Condition,
    Spent::Pipe,
    Spent::MessageQueue,
    Spent::Socket,
    Spent::Poll,
    Spent::OtherFile,
    Spent::FaultFile,
    Spent::FaultSwap,
    Spent::FaultCopy,
    Spent::FaultNew,
    Spent::Reclaim,
    Spent::MmapLock,
    Spent::Child,
    Spent::Spawn,
    Spent::Pause,
    Spent::Supervisor,
    Spent::Blocked,
    Spent::Unknown,
];

prop_compose! {
    fn any_part()(
        spent in 0..ALL.len(), ns in 0..5_000 * MS, times in 0u64..1000, call in 0usize..6, who in 0u32..4, futex in 0u64..3,
        did in 0..ALL.len(),
    ) -> TimePart {
        let calls = ["clock_nanosleep", "munmap", "clone", "recvfrom", "epoll_wait"];
        let meanwhile = Some(Box::new(part(ALL[did], 5, 1)));
        let tid = PROGRAM + who;
        let who = Who { thread: "other".into(), tid, pid: PROGRAM + who / 2, meanwhile, ..Who::default() };
        TimePart {
            spent: ALL[spent],
            ns,
            times,
            longest_ns: ns,
            call: calls.get(call).map(|call| (*call).to_owned()),
            who: (tid > PROGRAM).then_some(who),
            thing: Thing { futex: (futex > 0).then_some(futex), ..Thing::default() },
            caller: None,
        }
    }
}

prop_compose! {
    fn any_thread()(parts in prop::collection::vec(any_part(), 0..12), tid in 0u32..3, turns in prop::option::of(0u64..300)) -> ThreadBudget {
        let turns = turns.map(|turns| Turns {
            period_ns: 10 * MS, turns, missed: turns / 2, behind_ns: turns * MS, ..Turns::default()
        });
        let wall_ns = parts.iter().map(|part| part.ns).sum();
        ThreadBudget { turns, wall_ns, parts, ..thread(PROGRAM + tid, "any", vec![]) }
    }
}

proptest! {
    #[test]
    fn losses_are_parts_of_the_time_of_their_thread(
        threads in prop::collection::vec(any_thread(), 0..5), throttled in prop::option::of(0..9_000 * MS),
    ) {
        let threads: Vec<ThreadBudget> = threads
            .into_iter()
            .zip(0..)
            .map(|(thread, number)| ThreadBudget { thread: format!("thread-{number}"), ..thread })
            .collect();
        let quotas = throttled.map(|ns| Quota { cgroup: "/box".into(), throttled: 9, throttled_ns: ns, ..Quota::default() });
        let budget = Budget { threads, quotas: quotas.into_iter().collect(), ..Budget::default() };
        let all = losses(&budget, PROGRAM);
        let ran = budget.threads.iter().any(|thread| thread.wall_ns > 0);
        prop_assert_eq!(all.is_empty(), !ran);
        for thread in &budget.threads {
            let lost: u64 = all.iter().filter(|loss| loss.subject == thread.thread).map(|loss| loss.ns).sum();
            prop_assert!(lost <= thread.wall_ns, "{} of {}: {:?}", lost, thread.wall_ns, all);
        }
        let longest = budget.threads.iter().map(|thread| thread.wall_ns).max().unwrap_or(0);
        let of_process = all.iter().filter(|loss| loss.subject == "server");
        for loss in of_process {
            prop_assert!(loss.ns <= longest, "{:?}", loss);
        }
    }
}

/// Judges plays again that `culprits/culprits.py --keep DIR` kept, before `culprits/culprits.py --again DIR` scores them:
/// `PUNCTUAL_PLAYS=DIR cargo test -p punctual-lab --lib judge_again -- --ignored`.
#[test]
#[ignore = "changes the plays of a folder: PUNCTUAL_PLAYS=DIR"]
fn by_hand_judge_again() {
    let folder =
        std::path::PathBuf::from(std::env::var_os("PUNCTUAL_PLAYS").expect("PUNCTUAL_PLAYS names a folder of plays"));
    let mut judged = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            judged += u32::from(judge(&path));
        }
    }
    assert!(judged > 0, "the folder has no play with a budget");
}

/// Whether the play has a budget. Its losses are written anew.
fn judge(path: &std::path::Path) -> bool {
    let mut play: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let Some(causes) = play.pointer_mut("/record/causes") else { return false };
    let known: punctual_record::Causes = serde_json::from_value(causes.clone()).unwrap();
    let (Some(budget), Some(program)) = (&known.budget, &known.program) else { return false };
    causes["losses"] = serde_json::to_value(losses(budget, program.pid)).unwrap();
    std::fs::write(path, serde_json::to_vec_pretty(&play).unwrap()).unwrap();
    true
}
