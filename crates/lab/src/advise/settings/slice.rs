//! The time slice of EEVDF: `sched_setattr(2)`, `sched_runtime` under SCHED_OTHER and SCHED_BATCH (Linux 6.12).

use std::io;

use punctual_linux::sched::{self, Attributes};

use crate::advise::setting::{Aim, Goal, Setting, Value, errors, words};
use crate::advise::thread::Thread;

/// The shortest that the kernel takes (kernel/sched/syscalls.c, `__setparam_fair`).
const SHORTEST_NS: u64 = 100_000;

pub(super) struct Slice;

impl Setting for Slice {
    fn read(&self, thread: &Thread) -> io::Result<Value> {
        let now = sched::attributes(thread.tid).map_err(errors)?;
        Ok(words(&[u64::from(is_fair(&now)), if is_fair(&now) { now.runtime_ns } else { 0 }]))
    }

    fn goal(&self, now: &Value, _: Aim) -> Goal {
        match now[..2] {
            [0, _] => Err("threads under a real-time policy have no time slice"),
            [_, SHORTEST_NS] => Err("the time slice is 100 us already"),
            _ => Ok(words(&[1, SHORTEST_NS])),
        }
    }

    fn write(&self, thread: &Thread, value: &Value) -> io::Result<()> {
        let now = sched::attributes(thread.tid).map_err(errors)?;
        if !is_fair(&now) || value[0] == 0 {
            return Ok(());
        }
        sched::set_attributes(thread.tid, &Attributes { runtime_ns: value[1], ..now }).map_err(errors)?;
        let is = self.read(thread)?;
        // Older kernels take it and ignore it.
        if value[1] == SHORTEST_NS && is[1] != value[1] {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(())
    }

    fn put_back(&self, thread: &Thread, before: &Value) -> io::Result<()> {
        // 0 selects the default; the value before may be the default, which a number would fix.
        self.write(thread, &words(&[before[0], 0]))?;
        if self.read(thread)? == *before { Ok(()) } else { self.write(thread, before) }
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::Unsupported => "use Linux 6.12 or later",
            _ => "run as root, or as the user of the program",
        }
    }
}

fn is_fair(now: &Attributes) -> bool {
    matches!(now.policy, sched::OTHER | sched::BATCH)
}
