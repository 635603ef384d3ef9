//! Changing policy and nice value of the calling thread, and putting them back.

use punctual_linux::sched::{self, Attributes};
use rustix::io::Errno;

use super::guard::{Steps, Undo};
use super::remedy;
use super::surroundings::Surroundings;
use super::{Condition, NotRestored, Policy, Refused};

/// Flags that are put back; the others of the call are instructions rather than state.
const KEPT_FLAGS: u64 = sched::RESET_ON_FORK | sched::RECLAIM | sched::DL_OVERRUN;

/// Puts the calling thread under `policy`.
pub(super) fn set_policy(policy: Policy, one_way: bool, here: &Surroundings, steps: &mut Steps) -> Result<(), Refused> {
    let refuse = |why: String, remedy: String, errno| Refused {
        condition: Condition::Policy,
        asked: policy.to_string(),
        why,
        remedy,
        errno,
    };
    policy.validate().map_err(|error| refuse(error.to_string(), "choose values within these bounds".into(), None))?;
    let failed = |error: punctual_linux::Error| {
        let (why, remedy) = remedy::policy(policy, &error, here);
        refuse(why, remedy, Some(error.errno()))
    };
    let before = read().map_err(failed)?;
    if !one_way && !may_return(&before, policy, here) {
        let was = describe(&before);
        let (why, remedy) = remedy::one_way(&format!("{policy} could be set, but {was} not put back"), here);
        return Err(refuse(why, remedy, None));
    }
    let mut wanted = policy.attributes(before.nice);
    // Only the privileged may clear it, and asking for that would cost the policy.
    wanted.flags |= before.flags & sched::RESET_ON_FORK;
    sched::set_attributes(0, &wanted).map_err(failed)?;
    steps.push(Box::new(FormerPolicy(before)));
    let now = read().map_err(failed)?;
    if Policy::of(&now) == Some(policy) {
        return Ok(());
    }
    let why = format!("the kernel accepted it, but the thread is under {} now", describe(&now));
    Err(refuse(why, "see whether another program (a real-time daemon, a watchdog) changes policies here".into(), None))
}

/// Sets the nice value of the calling thread.
pub(super) fn set_nice(nice: i32, one_way: bool, here: &Surroundings, steps: &mut Steps) -> Result<(), Refused> {
    let refuse = |why: String, remedy: String, errno| Refused {
        condition: Condition::Nice,
        asked: nice.to_string(),
        why,
        remedy,
        errno,
    };
    if !(-20..=19).contains(&nice) {
        // The kernel would clamp it without a word.
        let why = format!("nice values go from -20 (most favoured) to 19 (least), and {nice} is outside");
        return Err(refuse(why, "choose a value from -20 to 19".into(), None));
    }
    let failed = |error: punctual_linux::Error| {
        let (why, remedy) = remedy::nice(nice, &error, here);
        refuse(why, remedy, Some(error.errno()))
    };
    let before = sched::nice(0).map_err(failed)?;
    if nice > before && !one_way && !here.may_have_nice(before) {
        let (why, remedy) = remedy::one_way(&format!("nice {nice} could be set, but {before} not put back"), here);
        return Err(refuse(why, remedy, None));
    }
    sched::set_nice(0, nice).map_err(failed)?;
    steps.push(Box::new(FormerNice(before)));
    let now = sched::nice(0).map_err(failed)?;
    if now == nice {
        return Ok(());
    }
    Err(refuse(format!("the kernel accepted it, but the nice value is {now} now"), "none known".into(), None))
}

/// The thread's attributes, with the nice value also under the policies for which the kernel leaves it out.
pub(super) fn read() -> punctual_linux::Result<Attributes> {
    let attributes = sched::attributes(0)?;
    Ok(Attributes { nice: sched::nice(0)?, flags: attributes.flags & KEPT_FLAGS, ..attributes })
}

/// Whether the kernel will let this thread go from `policy` back to `before` (kernel/sched/syscalls.c,
/// `user_check_sched_setscheduler`).
fn may_return(before: &Attributes, policy: Policy, here: &Surroundings) -> bool {
    here.may_set_any_priority()
        || match before.policy {
            sched::FIFO | sched::RR => {
                Policy::of(before) == Some(policy)
                    || here.rtprio_limit.is_none_or(|limit| limit >= before.priority.into())
            }
            sched::DEADLINE => Policy::of(before) == Some(policy),
            // A SCHED_IDLE thread counts as one that gains priority when it leaves.
            _ => policy != Policy::Idle || before.policy == sched::IDLE || here.may_have_nice(before.nice),
        }
}

pub(super) fn describe(attributes: &Attributes) -> String {
    Policy::of(attributes).map_or_else(|| format!("policy {}", attributes.policy), |policy| policy.to_string())
}

#[derive(Debug)]
struct FormerPolicy(Attributes);

impl Undo for FormerPolicy {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        let was = describe(&self.0);
        let not_restored = |why: String| NotRestored { condition: Condition::Policy, was: was.clone(), why };
        put_back(&self.0).map_err(|why| not_restored(why.to_string()))?;
        let now = read().map_err(|error| not_restored(error.to_string()))?;
        if now == self.0 {
            return Ok(());
        }
        if (Attributes { flags: self.0.flags, ..now }) == self.0 {
            return Err(not_restored(
                "it is again, but without CAP_SYS_NICE the kernel keeps the flag reset-on-fork: children of this thread start \
                 under SCHED_OTHER and with a nice value of 0 or more"
                    .into(),
            ));
        }
        Err(not_restored(format!("it is {} now", describe(&now))))
    }
}

/// Sets `before` again.
fn put_back(before: &Attributes) -> punctual_linux::Result<()> {
    let fair = matches!(before.policy, sched::OTHER | sched::BATCH | sched::IDLE);
    // Since Linux 6.12 the runtime of a fair policy is its time slice, and writing back the default one would pin it: ask for
    // the default first, and for the former one only where that differs.
    let first = Attributes { runtime_ns: if fair { 0 } else { before.runtime_ns }, ..*before };
    set_or_keep_reset_flag(&first)?;
    if fair && sched::attributes(0)?.runtime_ns != before.runtime_ns {
        set_or_keep_reset_flag(before)?;
    }
    Ok(())
}

/// Only the privileged may clear reset-on-fork; leaving the real-time policy matters more than the flag.
fn set_or_keep_reset_flag(wanted: &Attributes) -> punctual_linux::Result<()> {
    match sched::set_attributes(0, wanted) {
        Err(error) if error.errno() == Errno::PERM.raw_os_error() && wanted.flags & sched::RESET_ON_FORK == 0 => {
            sched::set_attributes(0, &Attributes { flags: wanted.flags | sched::RESET_ON_FORK, ..*wanted })
        }
        outcome => outcome,
    }
}

#[derive(Debug)]
struct FormerNice(i32);

impl Undo for FormerNice {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        let not_restored = |why: String| NotRestored { condition: Condition::Nice, was: self.0.to_string(), why };
        sched::set_nice(0, self.0).map_err(|error| not_restored(error.to_string()))?;
        match sched::nice(0) {
            Ok(now) if now == self.0 => Ok(()),
            Ok(now) => Err(not_restored(format!("it is {now} now"))),
            Err(error) => Err(not_restored(error.to_string())),
        }
    }
}
