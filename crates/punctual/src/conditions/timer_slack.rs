//! How much later than requested the kernel may end a wait of the calling thread.
//!
//! Since Linux 6.13 a change to a real-time policy sets the slack to 0. Under that policy the kernel ignores
//! `PR_SET_TIMERSLACK`, and on leaving it restores the thread's default (kernel/sched/syscalls.c,
//! `__setscheduler_params`). So the slack is set before the policy, checked after it, and restored after it.

use std::time::Duration;

use punctual_linux::prctl::{set_timer_slack_ns, timer_slack_ns};
use rustix::io::Errno;

use super::condition::{Applying, Condition, Definition, Held, Machine, Probe, not_restored, shown};
use super::reason::Reason;
use super::set::Conditions;
use super::surroundings::Surroundings;
use super::value::Value;
use crate::duration::parse_duration;
use crate::need::Need;
use crate::restore::NotRestored;

/// The longest slack on a command line; a longer one is of no use.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct TimerSlack;

impl Condition {
    /// `timer-slack`.
    pub const TIMER_SLACK: Self = Self::of(&TimerSlack);
}

impl Conditions {
    /// Requests a timer slack of the calling thread. Zero requests the minimum, 1 ns. Since Linux 6.13 a real-time thread has no slack,
    /// despite any request.
    #[must_use]
    pub fn timer_slack(self, slack: Duration) -> Self {
        // The kernel takes 0 as "back to the default"; here 0 means the minimum.
        self.with(Value::TimerSlack(slack.max(Duration::from_nanos(1))))
    }

    /// The timer slack; zero under real-time policies since Linux 6.13.
    #[must_use]
    pub fn get_timer_slack(&self) -> Option<Duration> {
        match self.value(Condition::TIMER_SLACK)? {
            Value::TimerSlack(duration) => Some(*duration),
            _ => None,
        }
    }
}

impl Definition for TimerSlack {
    fn name(&self) -> &'static str {
        "timer-slack"
    }

    fn parse(&self, typed: &str) -> Result<Value, String> {
        match parse_duration(typed).map_err(|error| error.to_string())? {
            slack if !slack.is_zero() && slack <= LONGEST => Ok(Value::TimerSlack(slack)),
            _ => Err("expected a duration from 1ns to 1s; 0 restores the default, prctl(2) (example: 50us)".into()),
        }
    }

    fn read(&self, _: &Machine) -> Option<Value> {
        timer_slack_ns().ok().map(|ns| Value::TimerSlack(Duration::from_nanos(ns)))
    }

    fn probe(&self, _: &Machine) -> Probe {
        Probe::Try(Value::TimerSlack(Duration::from_nanos(1)))
    }
}

/// Sets the value and reads it back.
pub(super) fn apply(slack: Duration, applying: &mut Applying<'_>) -> Result<(), Reason> {
    let slack = Slack { ns: u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1), before: timer_slack_ns().ok() };
    slack.set()?;
    applying.hold(slack);
    Ok(())
}

#[derive(Debug)]
struct Slack {
    ns: u64,
    before: Option<u64>,
}

impl Slack {
    fn set(&self) -> Result<(), Reason> {
        set_timer_slack_ns(self.ns).map_err(|error| {
            let needs = if error.errno() == Errno::RANGE.raw_os_error() {
                Need::SlackAtMost(Duration::from_secs(2))
            } else {
                Need::Call("prctl(PR_SET_TIMERSLACK)")
            };
            Reason::new(&error, needs).errno(error.errno())
        })
    }
}

fn read() -> Result<u64, Reason> {
    timer_slack_ns().map_err(|error| Reason::new(&error, Need::Call("prctl(PR_GET_TIMERSLACK)")).errno(error.errno()))
}

impl Held for Slack {
    fn lost(&self) -> Option<String> {
        // 0: a real-time policy has no slack, which is within the request.
        timer_slack_ns().ok().filter(|now| *now != self.ns && *now != 0).map(shown)
    }

    fn renew(&mut self, _: &Surroundings) -> Result<(), Reason> {
        self.set()
    }

    fn settle(&mut self) -> Result<(), Reason> {
        if read()? == self.ns {
            return Ok(());
        }
        // If the thread was real-time until now, the kernel ignored the slack so far.
        self.set()?;
        match read()? {
            // 0: no slack under a real-time policy. The request is an upper limit, so it holds.
            now if now == self.ns || now == 0 => Ok(()),
            now => Err(Reason::new(
                format!("the kernel accepted it, but the slack is {} now", shown(now)),
                Need::SlackLeftAlone,
            )),
        }
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        // The slack reads as 0 under a real-time policy only.
        let Some(was) = self.before.filter(|was| *was != 0) else { return Vec::new() };
        let outcome = match timer_slack_ns() {
            Ok(now) if now == was => return Vec::new(),
            _ => set_timer_slack_ns(was).and_then(|()| timer_slack_ns()),
        };
        let why = match outcome {
            Ok(now) if now == was => return Vec::new(),
            Ok(now) => format!("it is {} now", shown(now)),
            Err(error) => error.to_string(),
        };
        vec![not_restored("timer-slack", shown(was), why)]
    }
}
