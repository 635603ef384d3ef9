//! The scheduling policy of a thread.
//!
//! Real-time policies are set with SCHED_FLAG_RESET_ON_FORK: new threads and child processes run under SCHED_OTHER.

use std::cell::LazyCell;

use punctual_linux::Error;
use punctual_linux::sched::{self, Attributes};
use rustix::io::Errno;

use super::set::{Conditions, irreversible, is, of_another_thread};
use super::surroundings::{CAP_SYS_NICE, Reason, Surroundings};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
    timer_slack,
};
use crate::need::Need;
use crate::policy::Policy;
use crate::restore::NotRestored;

/// Flags that describe state and are restored; the other flags are instructions to the call.
const KEPT_FLAGS: u64 = sched::RESET_ON_FORK | sched::RECLAIM | sched::DL_OVERRUN;

struct PolicyCondition;

impl Condition {
    /// `policy`.
    pub const POLICY: Self = Self(&Facts { name: "policy", scope: Scope::Thread, definition: &PolicyCondition });
}

impl Conditions {
    /// Requests a scheduling policy of the calling thread.
    pub fn policy(self, policy: Policy) -> Self {
        self.with(Value::Policy(policy))
    }

    /// The scheduling policy. Also absent under an unsupported policy (SCHED_EXT).
    #[must_use]
    pub fn get_policy(&self) -> Option<Policy> {
        let Value::Policy(policy) = self.value(Condition::POLICY)? else { return None };
        Some(*policy)
    }
}

impl Definition for PolicyCondition {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        Ok(Value::Policy(typed.parse()?))
    }

    fn read(&self, target: &Target) -> Option<Value> {
        sched::attributes(target.thread.id()).ok().as_ref().and_then(Policy::from_attributes).map(Value::Policy)
    }

    fn probe(&self, _: &Target) -> Probe {
        Probe::Try(Value::Policy(Policy::Fifo(1)))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::Policy(policy) = *applying.value else { return Err(Applying::read_only()) };
        policy.validate().map_err(|error| Reason::new(error, Need::WithinBounds))?;
        let (thread, here) = (applying.thread(), applying.here);
        let failed = |error: Error| explain(policy, &error, thread, here);
        let before = Scheduling::read(thread).map_err(failed)?;
        if !applying.allow_irreversible && !may_return(&before.attributes, policy, here) {
            let was = describe(&before.attributes);
            return Err(irreversible(&format!("{policy} could be set, but {was} not put back"), here));
        }
        set(thread, policy, &before.attributes).map_err(failed)?;
        applying.hold(UnderPolicy { thread, policy, before });
        verify(policy, &read(thread).map_err(failed)?)
    }
}

/// The policy that was set, and the previous state.
#[derive(Debug)]
struct UnderPolicy {
    thread: Thread,
    policy: Policy,
    before: Scheduling,
}

/// What a change of the policy changes: the attributes, and the slack, which a real-time policy and the way back reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheduling {
    pub(super) attributes: Attributes,
    /// 0 where it cannot be read, and under a real-time policy.
    pub(super) slack_ns: u64,
}

impl Scheduling {
    pub(super) fn read(thread: Thread) -> punctual_linux::Result<Self> {
        Ok(Self { attributes: read(thread)?, slack_ns: timer_slack::current(thread).unwrap_or(0) })
    }

    pub(super) fn put_back(&self, thread: Thread) -> Vec<NotRestored> {
        let policy = restore(thread, &self.attributes).err();
        let policy = policy.map(|why| not_restored("policy", describe(&self.attributes), why));
        policy.into_iter().chain(timer_slack::put_back(thread, self.slack_ns)).collect()
    }
}

impl Held for UnderPolicy {
    fn lost(&self) -> Option<String> {
        let now = read(self.thread).ok()?;
        (Policy::from_attributes(&now) != Some(self.policy)).then(|| describe(&now))
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        let failed = |error: Error| explain(self.policy, &error, self.thread, here);
        set(self.thread, self.policy, &read(self.thread).map_err(failed)?).map_err(failed)?;
        verify(self.policy, &read(self.thread).map_err(failed)?)
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        self.before.put_back(self.thread)
    }
}

/// Sets the policy of a thread. Keeps its time slice.
fn set(thread: Thread, policy: Policy, before: &Attributes) -> punctual_linux::Result<()> {
    let mut wanted = policy.attributes(before.nice);
    // Clearing the flag needs privilege; requesting that without privilege would make the whole call fail.
    wanted.flags |= before.flags & sched::RESET_ON_FORK;
    sched::set_attributes(thread.id(), &wanted)?;
    let fair = |policy| matches!(policy, sched::OTHER | sched::BATCH);
    if fair(wanted.policy) && fair(before.policy) && sched::attributes(thread.id())?.runtime_ns != before.runtime_ns {
        sched::set_attributes(thread.id(), &Attributes { runtime_ns: before.runtime_ns, ..wanted })?;
    }
    Ok(())
}

fn verify(policy: Policy, now: &Attributes) -> Result<(), Reason> {
    if Policy::from_attributes(now) == Some(policy) {
        return Ok(());
    }
    let why = format!("the kernel accepted it, but the thread is under {} now", describe(now));
    Err(Reason::new(why, Need::NoOtherSetter))
}

/// Puts the attributes back, or says why they are others.
fn restore(thread: Thread, before: &Attributes) -> Result<(), String> {
    put_back(thread, before).map_err(|error| error.to_string())?;
    let now = read(thread).map_err(|error| error.to_string())?;
    if now == *before {
        return Ok(());
    }
    if (Attributes { flags: before.flags, ..now }) == *before {
        return Err(
            "it is again, but without CAP_SYS_NICE the kernel keeps the flag reset-on-fork: children of this thread start \
             under SCHED_OTHER and with a nice value of 0 or more"
                .into(),
        );
    }
    Err(format!("it is {} now", describe(&now)))
}

/// The thread's attributes. Adds the nice value under policies for which the kernel omits it.
fn read(thread: Thread) -> punctual_linux::Result<Attributes> {
    let attributes = sched::attributes(thread.id())?;
    Ok(Attributes { nice: sched::nice(thread.id())?, flags: attributes.flags & KEPT_FLAGS, ..attributes })
}

/// Whether the kernel permits this thread the change from `policy` back to `before` (kernel/sched/syscalls.c,
/// `user_check_sched_setscheduler`).
fn may_return(before: &Attributes, policy: Policy, here: &Surroundings) -> bool {
    here.has(CAP_SYS_NICE)
        || match before.policy {
            sched::FIFO | sched::RR => {
                Policy::from_attributes(before) == Some(policy)
                    || here.rtprio_limit.is_none_or(|limit| limit >= before.priority.into())
            }
            sched::DEADLINE => Policy::from_attributes(before) == Some(policy),
            // Leaving SCHED_IDLE counts as a gain in priority.
            _ => policy != Policy::Idle || before.policy == sched::IDLE || here.may_have_nice(before.nice),
        }
}

fn describe(attributes: &Attributes) -> String {
    Policy::from_attributes(attributes)
        .map_or_else(|| format!("policy {}", attributes.policy), |policy| policy.to_string())
}

/// Restores `before`.
fn put_back(thread: Thread, before: &Attributes) -> punctual_linux::Result<()> {
    let fair = matches!(before.policy, sched::OTHER | sched::BATCH | sched::IDLE);
    // Since Linux 6.12 the runtime of a fair policy is its time slice. Writing back the default would pin it.
    // Request the default first, and the former value only if it differs.
    let first = Attributes { runtime_ns: if fair { 0 } else { before.runtime_ns }, ..*before };
    set_or_keep_reset_flag(thread, &first)?;
    if fair && sched::attributes(thread.id())?.runtime_ns != before.runtime_ns {
        set_or_keep_reset_flag(thread, before)?;
    }
    Ok(())
}

/// Clearing reset-on-fork needs privilege; leaving the real-time policy matters more than the flag.
fn set_or_keep_reset_flag(thread: Thread, wanted: &Attributes) -> punctual_linux::Result<()> {
    match sched::set_attributes(thread.id(), wanted) {
        Err(error) if error.errno() == Errno::PERM.raw_os_error() && wanted.flags & sched::RESET_ON_FORK == 0 => {
            sched::set_attributes(thread.id(), &Attributes { flags: wanted.flags | sched::RESET_ON_FORK, ..*wanted })
        }
        outcome => outcome,
    }
}

/// Why a policy was refused.
pub(super) fn explain(policy: Policy, error: &Error, thread: Thread, here: &Surroundings) -> Reason {
    if let Some(reason) = of_another_thread(error, thread, here) {
        return reason.errno(error.errno());
    }
    let known = match policy {
        _ if is(error, Errno::NOSYS) => {
            let why = ": this kernel, or a seccomp filter, lacks the call".to_owned();
            Some((why, Need::Linux(3, 14, Some("sched_setattr"))))
        }
        Policy::Deadline { .. } => deadline(error, here),
        Policy::RoundRobin(_) | Policy::Fifo(_) if is(error, Errno::PERM) => Some(real_time(policy, here)),
        // Leaving SCHED_IDLE, or a thread of another user.
        _ if is(error, Errno::PERM) => {
            let why = ": leaving SCHED_IDLE counts as gaining priority, which needs CAP_SYS_NICE or RLIMIT_NICE";
            Some((why.to_owned(), Need::LeaveIdle(here.withheld(CAP_SYS_NICE))))
        }
        _ => None,
    };
    let (why, needs) = known.unwrap_or_else(|| (String::new(), Need::Unknown));
    Reason::new(format_args!("{error}{why}"), needs).errno(error.errno())
}

/// EPERM for SCHED_FIFO or SCHED_RR: what follows the error, and what it needs.
fn real_time(policy: Policy, here: &Surroundings) -> (String, Need) {
    let priority = u64::from(policy.priority().unwrap_or(1));
    let allowed = here.has(CAP_SYS_NICE) || here.rtprio_limit.is_none_or(|limit| limit >= priority);
    if !allowed {
        let limit = here.rtprio_limit.unwrap_or(0);
        let lacking = if here.user_namespace { " that counts outside its user namespace" } else { "" };
        let within_hard_limit = here.rtprio_hard_limit.is_none_or(|limit| limit >= priority);
        return (
            format!(
                ": the real-time priority limit (RLIMIT_RTPRIO) is {limit}, and the thread has no CAP_SYS_NICE{lacking}"
            ),
            Need::RtPriority { priority, within_hard_limit, withheld: here.withheld(CAP_SYS_NICE) },
        );
    }
    // The privilege is there; the remaining cause is real-time bandwidth.
    match (&here.rt_group, &here.unified_group) {
        (Some((file, 0)), _) => (
            format!(": the cpu cgroup of this process has no real-time bandwidth ({file} is 0, RT group scheduling)"),
            Need::GroupBandwidth(file.clone()),
        ),
        _ if here.rt_runtime_us == Some(0) => {
            let file = "/proc/sys/kernel/sched_rt_runtime_us";
            (format!(": real-time threads get no CPU time on this machine ({file} is 0)"), Need::Bandwidth)
        }
        (_, Some(group)) => (
            format!(
                ", although the thread may set this priority: probably RT group scheduling, under which only the root \
                 cgroup has real-time bandwidth (this process is in {group})"
            ),
            Need::RootGroup,
        ),
        (_, None) => (
            ", although the thread may set this priority: a security module or seccomp filter forbids it".to_owned(),
            Need::RealTimeAllowed(here.container.clone()),
        ),
    }
}

/// What follows an error of SCHED_DEADLINE, and what it needs.
fn deadline(error: &Error, here: &Surroundings) -> Option<(String, Need)> {
    let (why, needs) = match Errno::from_io_error(&error.source) {
        Some(Errno::BUSY) => {
            let share = match (here.rt_runtime_us, here.rt_period_us) {
                (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => format!(
                    " (at most {} % of each CPU: /proc/sys/kernel/sched_rt_runtime_us over sched_rt_period_us)",
                    runtime * 100 / period
                ),
                _ => String::new(),
            };
            let why = ": the kernel cannot guarantee the runtime beside the other SCHED_DEADLINE threads";
            return Some((format!("{why}{share}"), Need::LessRuntime));
        }
        Some(Errno::PERM) if !here.has(CAP_SYS_NICE) => (
            ": SCHED_DEADLINE needs CAP_SYS_NICE, whatever RLIMIT_RTPRIO allows",
            Need::SysNice(here.withheld(CAP_SYS_NICE)),
        ),
        Some(Errno::PERM) => (
            ": the thread must be free to run on all CPUs of its scheduling domain, and real-time bandwidth must be there",
            Need::DeadlineOnAllCpus,
        ),
        Some(Errno::INVAL) => (": the kernel takes no such runtime, deadline and period", Need::DeadlinePeriod),
        _ => return None,
    };
    Some((why.to_owned(), needs))
}
