//! The CPUs of a thread: `sched_setaffinity(2)`; read from `Cpus_allowed_list`, which has those that are offline too.

use std::{fs, io};

use punctual::CpuSet;
use punctual_linux::sched::set_affinity;

use crate::advise::setting::{Aim, Goal, Setting, Value, WORDS, errors};
use crate::advise::thread::Thread;

const BITS: usize = u64::BITS as usize;
/// CPUs that the words have room for.
const CPUS: usize = WORDS * BITS;

pub(super) struct Affinity;

impl Setting for Affinity {
    fn read(&self, thread: &Thread) -> io::Result<Value> {
        let Thread { process, tid, .. } = thread;
        let status = fs::read(format!("/proc/{process}/task/{tid}/status"))?;
        let status = String::from_utf8_lossy(&status);
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let list = list.and_then(|list| list.parse::<CpuSet>().ok());
        let mut words = [0; WORDS];
        for cpu in list.ok_or(io::ErrorKind::InvalidData)?.iter() {
            *words.get_mut(cpu / BITS).ok_or(io::ErrorKind::Unsupported)? |= 1 << (cpu % BITS);
        }
        Ok(words)
    }

    fn goal(&self, now: &Value, aim: Aim) -> Goal {
        if cpus(now).len() < 2 {
            return Err("the thread is bound to one CPU already");
        }
        if !cpus(now).contains(&aim.cpu) {
            return Err("the thread may not run on that CPU");
        }
        let mut words = [0; WORDS];
        words[aim.cpu / BITS] = 1 << (aim.cpu % BITS);
        Ok(words)
    }

    fn write(&self, thread: &Thread, value: &Value) -> io::Result<()> {
        set_affinity(thread.tid, &cpus(value)).map_err(errors)
    }

    fn put_back(&self, thread: &Thread, before: &Value) -> io::Result<()> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let online: CpuSet = online.parse().unwrap_or_default();
        let mine = cpus(before);
        // With all CPUs, the thread goes on to follow its cpuset; a list would fix it.
        if !online.is_empty() && online.iter().all(|cpu| mine.contains(&cpu)) {
            set_affinity(thread.tid, &(0..CPUS).collect::<Vec<_>>()).map_err(errors)?;
            if self.read(thread)? == *before {
                return Ok(());
            }
        }
        self.write(thread, before)
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::Unsupported => "none: the machine has more than 2048 CPUs",
            _ => "run as root, or as the user of the program",
        }
    }
}

pub(in crate::advise) fn cpus(value: &Value) -> Vec<usize> {
    (0..CPUS).filter(|cpu| value[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect()
}
