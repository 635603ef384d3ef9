//! A crowd: busy programs that compete for one CPU, and prove by their own progress that they ran.
//!
//! In goes how many, of what [`Kind`] and under which conditions; out comes a [`Crowd`] that works or rests as told. Each member
//! counts up a word of its own, alone on its cache line, in memory shared with the caller: the caller reads it before and after what it
//! measures, outside of the time it takes, and the counting costs the caller nothing, since a member only counts while it has the
//! CPU.
//!
//! Members never outlive the run. Processes die with the thread that gathered them (parent-death signal) and look every now and
//! then whether their parent is still theirs; threads look at a flag. A member under a real-time policy works in short bursts
//! ([`Restraint`]), so that it can keep nobody from the CPU for long.

mod member;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::shared::{CacheLine, Shared};

use crate::rounds::Failure;
use member::{Member, RESTING, WORKING};

/// Most members of a crowd: beyond that a share of the CPU is too small to tell.
pub const MOST: u32 = 64;
/// How long the crowd may take to come or go before that is called a failure. A niced member on a CPU with a real-time load may wait for
/// seconds.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Between two looks whether it has come or gone.
const LOOK: Duration = Duration::from_micros(300);
/// Longest work of a restrained member at a time: a tick of 1000 Hz.
pub const BURST: Duration = Duration::from_millis(1);

/// What the members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Processes of their own.
    Process,
    /// Threads of the measuring process.
    Thread,
}

impl Kind {
    /// Its name in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// How a member keeps from holding the CPU for ever: after each [`BURST`] of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restraint {
    /// Not at all: the scheduler sees to it.
    None,
    /// It sleeps for as long.
    Sleeps,
    /// It yields to those of its own rank. Whoever lets it work must let it rest now and then.
    Yields,
}

/// A member's words: what it has done, and whether it works.
pub(crate) type Line = CacheLine<(AtomicU64, AtomicU32)>;

/// How many members shall work, and whether all shall end.
pub(crate) type Gate = CacheLine<(AtomicU32, AtomicU32)>;

/// Where a member says what the kernel refused it: a length, and text.
pub(crate) type Complaint = (AtomicU32, [AtomicU8; 1000]);

/// Busy programs on one CPU.
#[derive(Debug)]
pub struct Crowd {
    members: Vec<Member>,
    lines: Shared<[Line]>,
    gate: Shared<Gate>,
    working: usize,
}

impl Crowd {
    /// Gathers `count` members; none of them works yet. They die with the calling thread.
    ///
    /// # Errors
    /// When the kernel starts no process, or refuses the conditions: without them the figures would be those of another case.
    pub fn gather(kind: Kind, count: u32, conditions: &Conditions, restraint: Restraint) -> Result<Self, Failure> {
        let failed = |error: linux::Error| Failure::Impossible {
            why: format!("starting {count} competitors: {error}"),
            remedy: Some("ask for fewer (--competitors), or raise ulimit -u or the cgroup's pids.max".into()),
        };
        let lines = Shared::<[Line]>::slice(count.max(1) as usize).map_err(failed)?;
        let gate = Shared::<Gate>::new().map_err(failed)?;
        let mut crowd = Self { members: Vec::new(), lines, gate, working: 0 };
        for index in 0..count {
            let member = match kind {
                Kind::Process => member::process(index, &crowd.lines, &crowd.gate, (conditions, restraint)),
                Kind::Thread => member::thread(index, &crowd.lines, &crowd.gate, (conditions, restraint)),
            };
            crowd.members.push(member.map_err(failed)??);
        }
        Ok(crowd)
    }

    /// Lets the first `count` members work and the others rest, and waits until it is so.
    pub fn set_working(&mut self, count: u32) -> Result<(), Failure> {
        self.working = (count as usize).min(self.members.len());
        if self.gate.0.0.swap(self.working as u32, Ordering::AcqRel) == self.working as u32 {
            return Ok(());
        }
        // It fails only for an address that is not mapped.
        drop(futex::wake(&self.gate.0.0, u32::MAX, Scope::Shared));
        let before: Vec<u64> = self.lines.iter().map(|line| line.0.0.load(Ordering::Relaxed)).collect();
        let begin = now_ns(Clock::Monotonic);
        while !self.has_settled(&before) {
            if linux::stop::requested() {
                return Err(Failure::Stopped);
            }
            self.all_alive()?;
            if now_ns(Clock::Monotonic) - begin > PATIENCE_NS {
                return Err(Failure::Impossible {
                    why: format!(
                        "within 10 s not all of {count} competitors got the CPU: something of higher priority holds it"
                    ),
                    remedy: Some("choose another CPU (--cpu)".into()),
                });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn has_settled(&self, before: &[u64]) -> bool {
        self.lines.iter().zip(before).take(self.members.len()).enumerate().all(|(index, (line, before))| {
            let state = line.0.1.load(Ordering::Acquire);
            if index < self.working {
                state == WORKING && line.0.0.load(Ordering::Relaxed) != *before
            } else {
                state == RESTING
            }
        })
    }

    /// The lines of the members that work, for reading their progress between measurements.
    #[must_use]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines[..self.working]
    }

    /// CPU time that the members which work have had so far.
    pub fn cpu_ns(&self) -> Result<i64, Failure> {
        let failed = |error: linux::Error| Failure::Impossible { why: error.to_string(), remedy: None };
        self.members[..self.working].iter().map(Member::cpu_ns).sum::<linux::Result<i64>>().map_err(failed)
    }

    /// CPU time that all members have had so far, as far as it can be told.
    #[must_use]
    pub fn cpu_ns_of_all(&self) -> u64 {
        self.members.iter().filter_map(|m| m.cpu_ns().ok()).map(i64::unsigned_abs).sum()
    }

    /// That no member has died: a figure without it would be that of another case.
    pub fn all_alive(&mut self) -> Result<(), Failure> {
        let died = |how: String| Failure::Impossible {
            why: format!("{how} in the middle of the measurement"),
            remedy: Some("leave the processes named punctual-busy alone; was it the OOM killer (dmesg)?".into()),
        };
        self.members.iter_mut().try_for_each(|member| member.alive().map_err(died))
    }

    /// Process ids of the members that are processes.
    #[must_use]
    pub fn process_ids(&self) -> Vec<i32> {
        self.members.iter().filter_map(Member::process_id).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.gate.0.1.store(1, Ordering::Release);
        self.gate.0.0.store(0, Ordering::Release);
        drop(futex::wake(&self.gate.0.0, u32::MAX, Scope::Shared));
        // The members' own drops kill or join them.
    }
}

/// The sum of the members' progress. To be read outside of what is timed.
#[inline]
pub(crate) fn progress(lines: &[Line]) -> u64 {
    lines.iter().fold(0, |sum, line| sum.wrapping_add(line.0.0.load(Ordering::Relaxed)))
}

/// Runs `work` in a child process under these conditions. What the kernel refuses comes back as a failure.
pub(crate) fn child_under(
    name: &str,
    conditions: &Conditions,
    work: impl FnOnce() + 'static,
) -> linux::Result<Result<Child, Failure>> {
    let complaint = Shared::<Complaint>::new()?;
    let (theirs, conditions) = (complaint.clone(), conditions.clone());
    let child = Child::spawn(name, move || {
        if member::settle(&conditions, &theirs) {
            work();
        }
    })?;
    Ok(member::await_settled(child, &complaint))
}
