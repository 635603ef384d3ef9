//! Changing the timer slack of the calling thread, and putting it back.
//!
//! Since Linux 6.13 the kernel sets the slack to 0 when a thread goes under a real-time policy, ignores `PR_SET_TIMERSLACK` while it
//! is there, and sets the thread's default when it leaves (kernel/sched/syscalls.c, `__setscheduler_params`). Hence the slack is
//! set before the policy, and put back after it, also when only the policy was asked.

use std::time::Duration;

use punctual_linux::prctl::{set_timer_slack_ns, timer_slack_ns};
use rustix::io::Errno;

use super::guard::{Steps, Undo};
use super::{Condition, NotRestored, Refused};
use crate::duration::format_duration;

/// Remembers the slack as it is now.
pub(super) fn keep(steps: &mut Steps) {
    // A kernel that cannot tell the slack cannot set it either, and `set` reports that.
    if let Ok(slack_ns) = timer_slack_ns() {
        steps.push(Box::new(FormerSlack(slack_ns)));
    }
}

/// Asks for the slack; [`settle`] sees whether it holds.
pub(super) fn set(asked: Duration) -> Result<(), Refused> {
    set_timer_slack_ns(least_one(asked)).map_err(|error| {
        let remedy = if error.errno() == Errno::RANGE.raw_os_error() {
            "choose a slack of at most 2s, which fits the kernel's unsigned long on any machine"
        } else {
            "allow prctl(PR_SET_TIMERSLACK) in the seccomp filter of the container or service"
        };
        refuse(asked, error.to_string(), remedy, Some(error.errno()))
    })
}

/// Sees to it that the slack holds, once the policy is set.
pub(super) fn settle(asked: Duration) -> Result<(), Refused> {
    let read = || {
        timer_slack_ns().map_err(|error| {
            refuse(
                asked,
                error.to_string(),
                "allow prctl(PR_GET_TIMERSLACK) in the seccomp filter",
                Some(error.errno()),
            )
        })
    };
    let wanted = least_one(asked);
    if read()? == wanted {
        return Ok(());
    }
    set(asked)?;
    match read()? {
        // 0: none at all, under a real-time policy. What was asked is the most that is tolerated, so it holds.
        now if now == wanted || now == 0 => Ok(()),
        now => Err(refuse(
            asked,
            format!("the kernel accepted it, but the slack is {} now", format_duration(Duration::from_nanos(now))),
            "see whether something else (a container's seccomp filter, a power manager) sets the slack of this thread",
            None,
        )),
    }
}

/// The kernel takes 0 for "back to the default"; who asks for none means the least there is.
pub(super) fn least_one(asked: Duration) -> u64 {
    u64::try_from(asked.as_nanos()).unwrap_or(u64::MAX).max(1)
}

fn refuse(asked: Duration, why: String, remedy: &str, errno: Option<i32>) -> Refused {
    Refused { condition: Condition::TimerSlack, asked: format_duration(asked), why, remedy: remedy.into(), errno }
}

#[derive(Debug)]
struct FormerSlack(u64);

impl Undo for FormerSlack {
    fn undo(self: Box<Self>) -> Result<(), NotRestored> {
        let was = format_duration(Duration::from_nanos(self.0));
        let not_restored = |why: String| NotRestored { condition: Condition::TimerSlack, was: was.clone(), why };
        let read = || timer_slack_ns().map_err(|error| not_restored(error.to_string()));
        // 0 is the slack under a real-time policy, and comes and goes with it.
        if self.0 == 0 || read()? == self.0 {
            return Ok(());
        }
        set_timer_slack_ns(self.0).map_err(|error| not_restored(error.to_string()))?;
        match read()? {
            now if now == self.0 => Ok(()),
            now => Err(not_restored(format!("it is {} now", format_duration(Duration::from_nanos(now))))),
        }
    }
}
