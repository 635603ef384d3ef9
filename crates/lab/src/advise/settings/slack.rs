//! Timer slack: `/proc/TID/timerslack_ns` (proc_pid_timerslack_ns(5)).
//!
//! A thread passes its slack on to those that it creates, as their default. Only prctl(2) within a thread changes that.

use std::{fs, io};

use crate::advise::setting::{Aim, Goal, Setting, Value, words};
use crate::advise::thread::Thread;

pub(super) struct Slack;

impl Setting for Slack {
    fn read(&self, thread: &Thread) -> io::Result<Value> {
        let text = fs::read_to_string(path(thread))?;
        Ok(words(&[text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?]))
    }

    fn goal(&self, now: &Value, _: Aim) -> Goal {
        match now[0] {
            0 => Err("threads under a real-time policy have no slack"),
            1 => Err("the slack is 1 ns already"),
            _ => Ok(words(&[1])),
        }
    }

    fn write(&self, thread: &Thread, value: &Value) -> io::Result<()> {
        // 0 would select the thread's default.
        if value[0] == 0 { Ok(()) } else { fs::write(path(thread), value[0].to_string()) }
    }

    fn remedy(&self, _: &io::Error) -> &'static str {
        "run as root or with CAP_SYS_NICE; the program itself needs no privilege for prctl(PR_SET_TIMERSLACK)"
    }
}

/// `/proc/PID/task/TID` has no such file.
fn path(thread: &Thread) -> String {
    format!("/proc/{}/timerslack_ns", thread.tid)
}
