//! SCHED_FIFO: `sched_setattr(2)`, with SCHED_FLAG_RESET_ON_FORK, so that new threads and processes stay as they are.
//!
//! Linux 6.13 and later set the timer slack of a real-time thread to 0. When it leaves the policy, it gets its default slack. So the
//! slack is put back too.

use std::{fs, io};

use punctual_linux::sched::{self, Attributes, RESET_ON_FORK};

use super::slack::Slack;
use crate::advise::setting::{Aim, Goal, Setting, Value, errors, words};
use crate::advise::thread::Thread;

/// The priority.
pub(in crate::advise) const PRIORITY: u32 = 40;
/// A thread that uses more of a CPU would keep others from it.
const BUSY: f64 = 0.5;

pub(super) struct Fifo;

/// The place of the slack in the words.
const ITS_SLACK: usize = 7;

impl Setting for Fifo {
    fn read(&self, thread: &Thread) -> io::Result<Value> {
        let now = sched::attributes(thread.tid).map_err(errors)?;
        let slack = Slack.read(thread)?[0];
        let (policy, priority) = (u64::from(now.policy), u64::from(now.priority));
        let nice = u64::from(now.nice.cast_unsigned());
        Ok(words(&[policy, now.flags, nice, priority, now.runtime_ns, now.deadline_ns, now.period_ns, slack]))
    }

    fn goal(&self, now: &Value, aim: Aim) -> Goal {
        if !matches!(now[0] as u32, sched::OTHER | sched::BATCH | sched::IDLE) {
            return Err("threads that have a real-time policy keep it");
        }
        match aim.share {
            Some(share) if share <= BUSY => {}
            Some(_) => return Err("threads that use over 50 % of a CPU would keep all others from it"),
            None => return Err("the CPU share of a new thread is not known yet"),
        }
        let mut wanted = words(&[u64::from(sched::FIFO), now[1] | RESET_ON_FORK, now[2], u64::from(PRIORITY)]);
        wanted[ITS_SLACK] = now[ITS_SLACK];
        Ok(wanted)
    }

    fn write(&self, thread: &Thread, value: &Value) -> io::Result<()> {
        sched::set_attributes(thread.tid, &attributes(value)).map_err(errors)
    }

    fn put_back(&self, thread: &Thread, before: &Value) -> io::Result<()> {
        // As for the slice: 0 first, which selects the default.
        let fair = matches!(before[0] as u32, sched::OTHER | sched::BATCH);
        let was = attributes(before);
        sched::set_attributes(thread.tid, &Attributes { runtime_ns: if fair { 0 } else { was.runtime_ns }, ..was })
            .map_err(errors)?;
        if sched::attributes(thread.tid).map_err(errors)?.runtime_ns != was.runtime_ns {
            sched::set_attributes(thread.tid, &was).map_err(errors)?;
        }
        let slack = before[ITS_SLACK];
        if Slack.read(thread)?[0] != slack && slack > 0 {
            fs::write(format!("/proc/{}/timerslack_ns", thread.tid), slack.to_string())?;
        }
        Ok(())
    }

    fn inherited(&self, now: &Value, before: &Value, set: &Value) -> Option<Value> {
        // The policy is reset on fork, the slack is not.
        let mut value = *now;
        value[ITS_SLACK] = before[ITS_SLACK];
        (now[0] as u32 == sched::OTHER && set[ITS_SLACK] == 0 && now[ITS_SLACK] == 0 && value != *now).then_some(value)
    }

    fn remedy(&self, _: &io::Error) -> &'static str {
        "run as root or with CAP_SYS_NICE, in a cgroup that allows real-time policies"
    }
}

fn attributes(value: &Value) -> Attributes {
    Attributes {
        size: 0,
        policy: value[0] as u32,
        flags: value[1],
        nice: (value[2] as u32).cast_signed(),
        priority: value[3] as u32,
        runtime_ns: value[4],
        deadline_ns: value[5],
        period_ns: value[6],
    }
}
