//! What threads lost: a judgement of their budget of time.
//!
//! Input: a [`Budget`] and the number of the program's process. Output: the losses of `culprits/losses.toml`, of which the first is that of
//! the first sentence: the largest that is not the program's own choice, of the thread that misses. It refuses to guess: a name that the
//! budget lacks is absent, and time without a known cause is no loss.

mod health;
mod kinds;
mod leader;
mod runtime;
mod sort;
mod waits;

use std::cmp::Reverse;

use punctual_record::{Budget, Loss, LossKind, Spent, ThreadBudget, TimePart};

use sort::{Found, share};

/// Below this share no loss is listed.
const LISTED: f64 = 0.001;
/// A thread that waits for others may have no work. Such a wait leads only where nothing that is against the program's will takes a third of it.
const RATHER_KEPT: u64 = 3;
/// Other threads are named if they lost at least this share of their time, and at most [`MOST_OTHERS`] of them.
const OTHERS: f64 = 0.05;
const MOST_OTHERS: usize = 3;

/// The losses of the program, the one of the first sentence first.
pub(crate) fn losses(budget: &Budget, program: u32) -> Vec<Loss> {
    let Some(leader) = leader::leader(budget, program) else { return Vec::new() };
    let mut found = kinds::found(leader, budget);
    sum_over_process(&mut found, leader, budget);
    sum_over_namesakes(&mut found, leader, budget);
    let health = health::health(leader, budget);
    ranked(&mut found);
    let leads = found.iter().position(|one| health.is_led_by(one, leader));
    if let Some(at) = leads {
        found[..=at].rotate_right(1);
    }
    let healthy = health.loss(leader);
    let listed = found.into_iter().filter(|one| share(one.ns, leader) >= LISTED).map(|one| one.loss(leader));
    if leads.is_some() {
        let own = (healthy.kind != LossKind::OnTime && healthy.ns > 0).then_some(healthy);
        listed.chain(of_others(leader, budget)).chain(own).collect()
    } else {
        std::iter::once(healthy).chain(listed).collect()
    }
}

/// The most time first, what is against the program's will before waits for others.
fn ranked(found: &mut [Found]) {
    found.sort_by_key(|one| Reverse(one.ns));
    let longest = found.first().map_or(0, |one| one.ns);
    if found.first().is_some_and(|first| first.may_be_idle)
        && let Some(at) = found.iter().position(|one| !one.may_be_idle && one.ns.saturating_mul(RATHER_KEPT) >= longest)
    {
        found[..=at].rotate_right(1);
    }
}

/// The quota, a stop and the freezer hold up the process, whichever of its threads runs. Where threads take turns, as in Go, each has only
/// a part of the time.
fn sum_over_process(found: &mut [Found], leader: &ThreadBudget, budget: &Budget) {
    let all = found.iter().fold(0u64, |sum, one| sum.saturating_add(one.ns));
    let members = || budget.threads.iter().filter(|thread| thread.pid == leader.pid);
    for one in found.iter_mut().filter(|one| matches!(one.kind, LossKind::Quota | LossKind::ThreadsOverQuota)) {
        // Threads that take turns have a part of the time each; those that run beside each other have it at the same time.
        let of_each = members().map(kinds::without_quota);
        let of_all = match one.kind {
            LossKind::Quota => of_each.fold(0u64, u64::saturating_add),
            _ => of_each.max().unwrap_or(0),
        };
        let counted = budget.quotas.iter().find(|quota| Some(&quota.cgroup) == one.place.cgroup.as_ref());
        let Some(counted) = counted else { continue };
        let room = leader.wall_ns.saturating_sub(all.saturating_sub(one.ns));
        // A thread cannot be kept for longer than the runqueues of its group are.
        one.ns = one.ns.max(of_all).min(counted.throttled_ns).min(room);
        one.times = one.times.max(counted.throttled.min(members().map(of_quota).fold(0, u64::saturating_add)));
    }
}

/// The runtime of Go gives the work of a thread that is blocked to another: of the waits for the disk, each thread has only a part. Where those
/// of all are longer than the run, they are beside each other, and no thread lost so much.
fn sum_over_namesakes(found: &mut [Found], leader: &ThreadBudget, budget: &Budget) {
    let namesakes = || {
        let others = budget.threads.iter().filter(|other| other.pid == leader.pid && other.tid != leader.tid);
        others.filter(|other| other.thread == leader.thread)
    };
    let hands_on =
        |part: &TimePart| part.spent == Spent::Condition && part.who.as_ref().is_some_and(|who| who.pid == leader.pid);
    if !leader.parts.iter().any(hands_on) {
        return;
    }
    for one in found.iter_mut().filter(|one| one.kind == LossKind::Disk) {
        let same = |other: &Found| other.kind == one.kind && other.place == one.place;
        let theirs: Vec<Found> =
            namesakes().filter_map(|other| kinds::found(other, budget).into_iter().find(same)).collect();
        let (ns, times) = theirs.iter().fold((one.ns, one.times), |(ns, times), other| {
            (ns.saturating_add(other.ns), times.saturating_add(other.times))
        });
        if !theirs.is_empty() && ns <= leader.wall_ns {
            (one.ns, one.times) = (ns, times);
            one.place.threads = Some(theirs.len() as u64 + 1);
        }
    }
}

fn of_quota(thread: &ThreadBudget) -> u64 {
    let times = |part: &TimePart| if part.spent == Spent::ThrottledByQuota { part.times } else { 0 };
    thread.parts.iter().map(times).fold(0, u64::saturating_add)
}

/// What other threads of the process lost most, against their will.
fn of_others(leader: &ThreadBudget, budget: &Budget) -> Vec<Loss> {
    let largest = |thread: &ThreadBudget| {
        let found = kinds::found(thread, budget).into_iter().filter(|one| !one.may_be_idle);
        let most = found.max_by_key(|one| one.ns).filter(|one| share(one.ns, thread) >= OTHERS)?;
        Some(most.loss(thread))
    };
    let others = budget.threads.iter().filter(|thread| thread.pid == leader.pid && thread.tid != leader.tid);
    let mut others: Vec<Loss> = others.filter_map(largest).collect();
    others.sort_by_key(|loss| Reverse(loss.ns));
    others.truncate(MOST_OTHERS);
    others
}

#[cfg(test)]
mod tests;
