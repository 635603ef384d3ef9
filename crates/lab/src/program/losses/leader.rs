//! Which thread is spoken of: the one that misses its deadlines, else the main thread, unless another does nearly all.

use punctual_record::{Budget, Spent, ThreadBudget, TimePart, Who};

use super::kinds::found;
use super::runtime::{keeps_house, shares_work};
use super::sort::{share, spent, works};

/// A thread that is this far behind, as a share of the run, misses its deadlines.
const BEHIND: f64 = 0.01;
/// The main thread leads from this part of what the busiest thread does and loses.
const MAIN: u64 = 4;
/// Fewer turns are no period.
const TURNS: u64 = 10;
/// A process that waits for one child for so much of its time is a shell or a wrapper.
const WRAPS: f64 = 0.95;
const OF_ONE_CHILD: f64 = 0.5;
/// One that waits for a signal leaves the work to others, where one of them works for this part of the run.
const OF_A_PAUSE: f64 = 0.1;
/// One wait at a pipe that takes this share of the run is for the end of the other process.
const ONE_WAIT: f64 = 0.9;
/// Most shells within shells.
const DEEPEST: usize = 8;
/// The thread; `None` without any.
pub(super) fn leader(budget: &Budget, program: u32) -> Option<&ThreadBudget> {
    let all = || budget.threads.iter().filter(|thread| thread.wall_ns > 0 && Some(thread.pid) != budget.watcher);
    let process = program_within(budget, program);
    let own = |thread: &&ThreadBudget| thread.pid == process && !keeps_house(thread);
    let mut members: Vec<&ThreadBudget> = all().filter(own).collect();
    if members.is_empty() {
        members = all().collect();
    }
    let behind = |thread: &&&ThreadBudget| thread.turns.as_ref().map_or(0, |turns| turns.behind_ns);
    let misses = |thread: &&&ThreadBudget| {
        let missed = thread.turns.as_ref().is_some_and(|turns| turns.missed > 1);
        missed && share(behind(thread), thread) >= BEHIND
    };
    if let Some(most) = members.iter().filter(misses).max_by_key(behind) {
        return Some(most);
    }
    let activity = |thread: &ThreadBudget| {
        let lost = found(thread, budget).iter().fold(0u64, |sum, one| sum.saturating_add(one.ns));
        spent(thread, |part| part.spent == Spent::Running).saturating_add(lost)
    };
    let busiest = members.iter().copied().max_by_key(|thread| activity(thread))?;
    let main = members.iter().copied().find(|thread| thread.tid == thread.pid).filter(|main| !only_joins(main));
    let leads = |main: &ThreadBudget| activity(main).saturating_mul(MAIN) >= activity(busiest);
    let takes_turns = |main: &ThreadBudget| main.thread == busiest.thread && shares_work(main, budget);
    if main.is_some_and(|main| takes_turns(main) && !(is_periodic(main) && leads(main))) {
        let alike = members.iter().copied().filter(|thread| thread.thread == busiest.thread);
        return alike.max_by_key(|thread| spent(thread, |part| part.spent == Spent::Running));
    }
    main.filter(|main| leads(main)).or(Some(busiest))
}

/// Whether the thread does nothing but wait a few times for signals of others, as pthread_join(3) does.
fn only_joins(main: &ThreadBudget) -> bool {
    let joins = |part: &TimePart| part.spent == Spent::Condition && part.times < TURNS && part.who.is_some();
    share(spent(main, joins), main) >= WRAPS
}

/// Whether the thread has turns, or sleeps time and again by the C library. Threads of Go do neither: its runtime sleeps in a thread of its
/// own, and calls nanosleep(2) itself.
fn is_periodic(thread: &ThreadBudget) -> bool {
    let sleeps = |part: &&TimePart| part.spent == Spent::Asleep && part.call.as_deref() == Some("clock_nanosleep");
    let slept = || thread.parts.iter().filter(sleeps).fold(0u64, |sum, part| sum.saturating_add(part.times));
    thread.turns.as_ref().is_some_and(|turns| turns.turns >= TURNS) || slept() >= TURNS
}

/// The process that a shell or a wrapper started and waits for, else the program itself.
fn program_within(budget: &Budget, program: u32) -> u32 {
    let mut process = program;
    for _ in 0..DEEPEST {
        let Some(main) = budget.threads.iter().find(|thread| thread.pid == process && thread.tid == process) else {
            break;
        };
        let waits = || main.parts.iter().filter(|part| is_for_child(part, main, budget));
        if share(waits().fold(0, |sum, part| sum.saturating_add(part.ns)), main) < WRAPS {
            break;
        }
        let children: Vec<u32> = waits().filter_map(|part| Some(part.who.as_ref()?.pid)).collect();
        // Where the watch or a signal ended the longest wait, the child is one of those that the program made.
        let any = process == program && waits().max_by_key(|part| part.ns).is_some_and(|part| part.who.is_none());
        let is_child = |thread: &&ThreadBudget| any || children.contains(&thread.pid);
        let of_child = budget.threads.iter().filter(|thread| thread.tid == thread.pid && thread.pid != process);
        let lasts = |thread: &&ThreadBudget| thread.wall_ns as f64 >= OF_ONE_CHILD * main.wall_ns as f64;
        // The stages of a pipeline end together: the one that takes the time leads.
        match of_child.filter(is_child).filter(lasts).max_by_key(|thread| (toil(budget, thread.pid), thread.wall_ns)) {
            Some(child) => process = child.pid,
            None => break,
        }
    }
    worker(budget, process).unwrap_or(process)
}

/// For how long the busiest thread of a process computed, or was kept from it.
fn toil(budget: &Budget, process: u32) -> u64 {
    let of_thread = |thread: &ThreadBudget| {
        let kept = found(thread, budget).into_iter().filter(|one| !one.may_be_idle);
        kept.fold(spent(thread, |part| part.spent == Spent::Running), |sum, one| sum.saturating_add(one.ns))
    };
    budget.threads.iter().filter(|thread| thread.pid == process).map(of_thread).max().unwrap_or(0)
}

/// The process that does the work where this one does nothing but wait for signals and for the ends of others, and sleeps between.
fn worker(budget: &Budget, process: u32) -> Option<u32> {
    let share_of =
        |thread: &ThreadBudget, kinds: &[Spent]| share(spent(thread, |part| kinds.contains(&part.spent)), thread);
    let only_waits = |thread: &ThreadBudget| {
        let waits = share_of(thread, &[Spent::Pause, Spent::Child, Spent::Spawn]);
        waits >= OF_ONE_CHILD && waits + share_of(thread, &[Spent::Asleep]) >= WRAPS
    };
    let members = || budget.threads.iter().filter(|thread| thread.pid == process);
    let run_ns = members().map(|thread| thread.wall_ns).max()?;
    let works = |thread: &ThreadBudget| spent(thread, |part| works(part.spent));
    let busiest = budget.threads.iter().filter(|thread| thread.pid != process).max_by_key(|thread| works(thread))?;
    let paused = members().any(|thread| share_of(thread, &[Spent::Pause]) >= OF_ONE_CHILD);
    let is_busy = works(busiest) as f64 >= if paused { OF_A_PAUSE } else { OF_ONE_CHILD } * run_ns as f64;
    (members().all(only_waits) && is_busy).then_some(busiest.pid)
}

/// Whether a process does nothing here but wait for another that it started: for its end, or once for what that computes and writes to a pipe.
fn is_for_child(part: &TimePart, main: &ThreadBudget, budget: &Budget) -> bool {
    let watched = |who: &Who| who.pid != main.pid && budget.threads.iter().any(|thread| thread.pid == who.pid);
    let computed = |who: &Who| who.meanwhile.as_ref().is_some_and(|did| works(did.spent));
    match part.spent {
        Spent::Child => true,
        Spent::Pipe => {
            share(part.longest_ns, main) >= ONE_WAIT
                && part.who.as_ref().is_some_and(|who| watched(who) && computed(who))
        }
        _ => false,
    }
}
