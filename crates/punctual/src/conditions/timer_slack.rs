//! How much later than requested the kernel may end a wait of a thread.
//!
//! Since Linux 6.13 a change to a real-time policy sets the slack to 0. Under that policy the kernel ignores
//! `PR_SET_TIMERSLACK`, and on leaving it restores the thread's default (kernel/sched/syscalls.c,
//! `__setscheduler_params`). So the slack is set before the policy, checked after it, and restored after it.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use punctual_linux::sched::{set_timer_slack_ns, timer_slack_ns};
use rustix::io::Errno;

use super::set::{Conditions, of_another_thread};
use super::surroundings::{Reason, Surroundings};
use super::{
    Applying, Condition, Definition, Facts, Held, InvalidValue, Probe, Scope, Target, Thread, Value, not_restored,
    shown,
};
use crate::duration::parse_duration;
use crate::need::Need;
use crate::restore::NotRestored;

/// The longest slack on a command line; a longer one is of no use.
const LONGEST: Duration = Duration::from_secs(1);

struct TimerSlack;

impl Condition {
    /// `timer-slack`.
    pub const TIMER_SLACK: Self = Self(&Facts { name: "timer-slack", scope: Scope::Thread, definition: &TimerSlack });
}

impl Conditions {
    /// Requests a timer slack of the calling thread. Zero requests the minimum, 1 ns. Since Linux 6.13 a real-time thread has no slack,
    /// despite any request.
    pub fn timer_slack(self, slack: Duration) -> Self {
        // The kernel takes 0 as "back to the default"; here 0 means the minimum.
        self.with(Value::TimerSlack(slack.max(Duration::from_nanos(1))))
    }

    /// The timer slack; zero under real-time policies since Linux 6.13.
    #[must_use]
    pub fn get_timer_slack(&self) -> Option<Duration> {
        let Value::TimerSlack(duration) = self.value(Condition::TIMER_SLACK)? else { return None };
        Some(*duration)
    }
}

impl Definition for TimerSlack {
    fn parse(&self, typed: &str) -> Result<Value, InvalidValue> {
        match parse_duration(typed)? {
            slack if !slack.is_zero() && slack <= LONGEST => Ok(Value::TimerSlack(slack)),
            _ => Err(InvalidValue::Expected(
                "a duration from 1ns to 1s; 0 restores the default, prctl(2) (example: 50us)",
            )),
        }
    }

    fn read(&self, target: &Target) -> Option<Value> {
        current(target.thread).ok().map(|ns| Value::TimerSlack(Duration::from_nanos(ns)))
    }

    fn probe(&self, _: &Target) -> Probe {
        Probe::Try(Value::TimerSlack(Duration::from_nanos(1)))
    }

    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason> {
        let Value::TimerSlack(slack) = *applying.value else { return Err(Applying::read_only()) };
        let thread = applying.thread();
        let ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
        let slack = Slack { thread, ns, before: current(thread).ok() };
        slack.set(applying.here)?;
        applying.hold(slack);
        Ok(())
    }
}

#[derive(Debug)]
struct Slack {
    thread: Thread,
    ns: u64,
    before: Option<u64>,
}

impl Slack {
    fn set(&self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        write(self.thread, self.ns).map_err(|error| {
            if let Some(reason) = of_another_thread(&error, self.thread, here) {
                return reason;
            }
            let needs = if error.errno() == Errno::RANGE.raw_os_error() {
                Need::SlackAtMost(Duration::from_secs(2))
            } else {
                Need::Call("prctl(PR_SET_TIMERSLACK)")
            };
            Reason::new(&error, needs).errno(error.errno())
        })
    }

    fn read(&self) -> Result<u64, Reason> {
        current(self.thread)
            .map_err(|error| Reason::new(&error, Need::Call("prctl(PR_GET_TIMERSLACK)")).errno(error.errno()))
    }
}

/// The slack of a thread in ns; 0 under a real-time policy since Linux 6.13.
pub(super) fn current(thread: Thread) -> punctual_linux::Result<u64> {
    let Thread::Other(_) = thread else { return timer_slack_ns() };
    let path = file(thread);
    let failed = |error: io::Error| at_file("read", &path, &error);
    let text = fs::read_to_string(&path).map_err(failed)?;
    text.trim().parse().map_err(|_| failed(io::Error::from_raw_os_error(Errno::INVAL.raw_os_error())))
}

/// Sets the slack of a thread. 0 would restore its default, so it becomes 1, the smallest slack.
fn write(thread: Thread, ns: u64) -> punctual_linux::Result<()> {
    let Thread::Other(_) = thread else { return set_timer_slack_ns(ns) };
    let path = file(thread);
    fs::write(&path, ns.max(1).to_string()).map_err(|error| at_file("write", &path, &error))
}

/// Puts the slack back; 0, which only real-time threads have, is left to the policy.
pub(super) fn put_back(thread: Thread, before: u64) -> Vec<NotRestored> {
    if before == 0 {
        return Vec::new();
    }
    let outcome = match current(thread) {
        Ok(now) if now == before => return Vec::new(),
        _ => write(thread, before).and_then(|()| current(thread)),
    };
    let why = match outcome {
        Ok(now) if now == before => return Vec::new(),
        Ok(now) => format!("it is {} now", shown(now)),
        Err(error) => error.to_string(),
    };
    vec![not_restored("timer-slack", shown(before), why)]
}

/// The file of another thread's slack (proc_pid_timerslack_ns(5)). A thread cannot use that of its own without a privilege.
fn file(thread: Thread) -> PathBuf {
    thread.folder().join("timerslack_ns")
}

fn at_file(call: &'static str, path: &Path, error: &io::Error) -> punctual_linux::Error {
    let errno = error.raw_os_error().unwrap_or(0);
    punctual_linux::Error::from_errno(call, errno).on(path.display().to_string())
}

impl Held for Slack {
    fn lost(&self) -> Option<String> {
        // 0: a real-time policy has no slack, which is within the request.
        current(self.thread).ok().filter(|now| *now != self.ns && *now != 0).map(shown)
    }

    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason> {
        self.set(here)
    }

    fn settle(&mut self) -> Result<(), Reason> {
        if self.read()? == self.ns {
            return Ok(());
        }
        // If the thread was real-time until now, the kernel ignored the slack so far.
        self.set(&Surroundings::at_first_use())?;
        match self.read()? {
            // 0: no slack under a real-time policy. The request is an upper limit, so it holds.
            now if now == self.ns || now == 0 => Ok(()),
            now => Err(Reason::new(
                format!("the kernel accepted it, but the slack is {} now", shown(now)),
                Need::SlackLeftAlone,
            )),
        }
    }

    fn undo(self: Box<Self>) -> Vec<NotRestored> {
        self.before.map(|before| put_back(self.thread, before)).unwrap_or_default()
    }
}
