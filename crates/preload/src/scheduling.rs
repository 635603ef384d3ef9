//! Policy, time slice, CPUs and timer slack of the calling thread, and what they were before.
//!
//! A refused setting leaves the thread as it was: `punctual run` says so before the program starts.
//!
//! The timer slack is 1 ns where sleeps are precise, but not for the shortest sleeps. With 1 ns, the timer of a short sleep is over before
//! the thread gives up the CPU. A sleep of at most 1 µs is short. A loop that lets others run by `usleep(0)` would starve them. So a sleep of
//! nearly no time has the slack that the thread had before.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::conditions::{Condition, Conditions, Value};
use punctual::{CpuSet, Policy};
use punctual_linux::sched::{Attributes, RESET_ON_FORK, SIZE};

use crate::rules::{LEAST_SLACK, Rules};
use crate::{filter, next};

/// Longest CPU time of a real-time thread without a blocking call, in µs. Then the kernel sends SIGXCPU (RLIMIT_RTTIME in getrlimit(2)):
/// a loop that does not end must not take the machine along.
const LONGEST_RT_US: libc::rlim_t = 2_000_000;

/// The changed settings, each with its earlier value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changed {
    attributes: Option<Attributes>,
    cpus: Option<libc::cpu_set_t>,
    timer_slack_ns: Option<u64>,
    /// No rule asked for less slack: precise sleeps did.
    for_precision: bool,
}

impl Changed {
    /// Nothing was changed.
    pub(crate) const NOTHING: Self = Self { attributes: None, cpus: None, timer_slack_ns: None, for_precision: false };
}

thread_local! {
    // No destructor and no lazy beginning: reading it neither allocates nor registers anything.
    static CHANGED: Cell<Changed> = const { Cell::new(Changed::NOTHING) };
}

/// What was changed for this thread: its children inherit it.
pub(crate) fn changed() -> Changed {
    CHANGED.get()
}

/// A new thread has what its creator had.
pub(crate) fn inherit(changed: Changed) {
    CHANGED.set(changed);
}

/// Changes for this thread what these rules ask for, and puts back what none of them asks for any more.
pub(crate) fn apply(rules: &Rules, set: u64) {
    let mut changed = CHANGED.get();
    let says = || rules.scheduling_of(set);
    let slack = says().filter_map(Conditions::get_timer_slack).last();
    // A copy would be allocated.
    let cpus = says().filter_map(|asked| asked.value(Condition::CPU)).last();
    let policy = says().filter_map(Conditions::get_policy).last();
    let slice = says().filter_map(Conditions::get_slice).last();
    // A real-time thread has no slack (since Linux 6.13), and its children inherit none.
    let slack_changes = slack.is_some() || policy.is_some_and(|policy| policy.is_real_time());
    if slack_changes && changed.timer_slack_ns.is_none() {
        changed.timer_slack_ns = slack_ns();
    }
    set_cpus(if let Some(Value::Cpu(cpus)) = cpus { Some(cpus) } else { None }, &mut changed);
    set_attributes(policy, slice, &mut changed);
    changed.for_precision = slack == Some(LEAST_SLACK);
    // prctl(2): 0 would be the default.
    let asked_ns = slack.map(|slack| (slack.as_nanos() as u64).max(1));
    // Last: leaving a real-time policy resets it.
    if let Some(ns) = asked_ns.or_else(|| changed.timer_slack_ns.take_if(|_| !slack_changes)) {
        set_slack_ns(ns);
    }
    CHANGED.set(changed);
}

/// The timer slack of the calling thread.
fn slack_ns() -> Option<u64> {
    // SAFETY: takes and returns numbers.
    u64::try_from(unsafe { next::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }).ok()
}

/// Sets the timer slack of the calling thread. It cannot be refused (prctl(2)).
fn set_slack_ns(ns: u64) {
    // SAFETY: takes and returns numbers.
    unsafe { next::prctl(libc::PR_SET_TIMERSLACK, ns as _, 0, 0, 0) };
}

fn set_cpus(asked: Option<&CpuSet>, changed: &mut Changed) {
    let size = size_of::<libc::cpu_set_t>() as libc::c_long;
    let call = |number, set: *const libc::cpu_set_t| {
        // SAFETY: a set of this size, which sched_getaffinity fills.
        unsafe { next::syscall(number, 0, size, set as libc::c_long, 0, 0, 0) }
    };
    // SAFETY: an empty set is all zero.
    let empty: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    match (asked, changed.cpus) {
        (None, None) => {}
        (None, Some(before)) => {
            call(libc::SYS_sched_setaffinity, &raw const before);
            changed.cpus = None;
        }
        (Some(asked), before) => {
            let mut set = empty;
            for cpu in asked.iter().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
                // SAFETY: a number below the size of the set.
                unsafe { libc::CPU_SET(cpu, &mut set) };
            }
            if before.is_none() {
                let mut now = empty;
                changed.cpus = (call(libc::SYS_sched_getaffinity, &raw mut now) > 0).then_some(now);
            }
            call(libc::SYS_sched_setaffinity, &raw const set);
        }
    }
}

fn set_attributes(policy: Option<Policy>, slice: Option<Duration>, changed: &mut Changed) {
    let before = match changed.attributes {
        None if policy.is_none() && slice.is_none() => return,
        None => own(),
        before => before,
    };
    let Some(before) = before else { return };
    if policy.is_none() && slice.is_none() {
        put_back(&before);
        changed.attributes = None;
        return;
    }
    changed.attributes = Some(before);
    let mut asked = before;
    if let Some(policy) = policy {
        (asked.policy, asked.priority) = number(policy);
        if policy.is_real_time() {
            // The children of a real-time thread are not.
            asked.flags = RESET_ON_FORK;
            limit_real_time();
        }
    }
    let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(asked.policy as _));
    if let Some(slice) = slice.filter(|_| fair) {
        asked.runtime_ns = slice.as_nanos() as u64;
    }
    set(&asked);
}

fn number(policy: Policy) -> (u32, u32) {
    let policies = match policy {
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::RoundRobin(_) => libc::SCHED_RR,
        Policy::Fifo(_) => libc::SCHED_FIFO,
        // The rules refuse SCHED_DEADLINE.
        Policy::Other | Policy::Deadline { .. } => libc::SCHED_OTHER,
    };
    (policies as u32, policy.priority().unwrap_or(0).into())
}

fn own() -> Option<Attributes> {
    let mut now = Attributes::default();
    // SAFETY: writes at most SIZE bytes.
    let failed = unsafe { next::syscall(libc::SYS_sched_getattr, 0, &raw mut now as _, SIZE as _, 0, 0, 0) };
    (failed == 0).then_some(now)
}

fn set(asked: &Attributes) -> bool {
    let asked = Attributes { size: SIZE, ..*asked };
    // SAFETY: reads SIZE bytes.
    unsafe { next::syscall(libc::SYS_sched_setattr, 0, &raw const asked as _, 0, 0, 0, 0) == 0 }
}

/// A runtime of 0 is the default slice. The earlier slice as a number would stay when the default changes.
fn put_back(before: &Attributes) {
    let default = Attributes { runtime_ns: 0, ..*before };
    // Without privilege, the children's reset stays (kernel/sched/syscalls.c, `user_check_sched_setscheduler`).
    if !set(&default) {
        set(&Attributes { flags: before.flags | RESET_ON_FORK, ..default });
    }
    if own().is_some_and(|now| now.runtime_ns != before.runtime_ns) {
        set(before);
    }
}

fn limit_real_time() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes one limit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_RTTIME, &raw mut limit) == 0 && limit.rlim_cur > LONGEST_RT_US {
            limit.rlim_cur = LONGEST_RT_US;
            libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit);
        }
    }
}

/// The slack of precise sleeps.
const LEAST_NS: u64 = 1;

/// The slack of the process before; 0 if it was left.
static BEFORE_NS: AtomicU64 = AtomicU64::new(0);

/// The slack that `punctual run` found. A program that another one with this library executes has 1 ns from
/// it already.
fn handed_down() -> Option<u64> {
    next::variable(c"PUNCTUAL_SLACK_NS")?.to_str().ok()?.parse().ok()
}

/// Sets the slack of this thread to 1 ns. The threads that it starts inherit it. Runs once, when the program is loaded.
pub(crate) fn lower_slack() {
    let found_ns = slack_ns().unwrap_or(0);
    let before_ns = if found_ns == LEAST_NS { handed_down().unwrap_or(found_ns) } else { found_ns };
    BEFORE_NS.store(before_ns, Ordering::Relaxed);
    set_slack_ns(LEAST_NS);
}

/// Whether all threads have less slack than before.
#[inline]
pub(crate) fn slack_is_lower() -> bool {
    BEFORE_NS.load(Ordering::Relaxed) != 0
}

/// The slack that the thread had before precise sleeps lowered it. It is not asked for under a filter of the program's own.
fn lowered_from() -> Option<u64> {
    if !filter::may_try() {
        return None;
    }
    let before_ns = match BEFORE_NS.load(Ordering::Relaxed) {
        0 => CHANGED.get().timer_slack_ns.filter(|_| CHANGED.get().for_precision)?,
        before_ns => before_ns,
    };
    (before_ns > LEAST_NS && slack_ns() == Some(LEAST_NS)).then_some(before_ns)
}

/// Makes a call with the slack of before. A slack that the program set itself stays.
pub(crate) fn with_slack_as_before<T>(call: impl FnOnce() -> T) -> T {
    let Some(before_ns) = lowered_from() else { return call() };
    set_slack_ns(before_ns);
    let done = call();
    set_slack_ns(LEAST_NS);
    done
}

/// Gives the calling thread its slack back before a filter of system calls is on: sleeps of nearly no time cannot ask for it then.
pub(crate) fn put_slack_back() {
    if let Some(before_ns) = lowered_from() {
        set_slack_ns(before_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_beyond_the_largest_set_is_left_out() {
        let mut changed = Changed::NOTHING;
        let beyond = CpuSet::from_iter([libc::CPU_SETSIZE as usize]);
        set_cpus(Some(&beyond), &mut changed);
        assert!(changed.cpus.is_some(), "the kernel has refused an empty set");
        set_cpus(None, &mut changed);
        assert!(changed.cpus.is_none());
    }
}
