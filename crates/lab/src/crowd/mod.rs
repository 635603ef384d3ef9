//! A crowd: busy programs that compete for one CPU. Their own progress proves that they ran.
//!
//! The input is a number of competitors, their [`CompetitorKind`] and their conditions. The output is a [`Crowd`]
//! that works or rests on request. Each member increments a word of its own, alone on its cache line, in memory
//! shared with the caller. The caller reads the words before and after a measurement, outside the timed part.
//! Counting costs the caller nothing, because a member counts only while it has the CPU.
//!
//! Members never outlive the run. Processes die with the thread that started them (parent-death signal). From time
//! to time they check that their parent lives. Threads check a flag. A member under a real-time policy works in
//! short bursts ([`Restraint`]), so that it cannot monopolise the CPU.

mod member;
mod terms;

use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::shared::Shared;
use punctual_record::experiment::yielding::CompetitorKind;

use crate::frame::{Failure, Unavailable};
pub(crate) use member::child_under;
use member::{Member, RESTING, WORKING};
use terms::Control;
pub(crate) use terms::Line;
pub use terms::{BURST, Restraint};

/// Most members of a crowd. With more, a share of the CPU is too small to measure.
pub const MOST: u32 = 64;
/// Longest time for the crowd to start or stop before it is a failure. A niced member on a CPU with a real-time load
/// may wait for seconds.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Interval of checks whether it has started or stopped.
const LOOK: Duration = Duration::from_micros(300);
/// Busy programs on one CPU.
#[derive(Debug)]
pub struct Crowd {
    members: Vec<Member>,
    lines: Shared<[Line]>,
    control: Shared<Control>,
    working: usize,
}

impl Crowd {
    /// Starts `count` members, all at rest. They die with the calling thread.
    ///
    /// # Errors
    /// If the kernel starts no process, or refuses the conditions: without them the figures would be those of another
    /// case.
    pub fn gather(
        kind: CompetitorKind,
        count: u32,
        conditions: &Conditions,
        restraint: Restraint,
    ) -> Result<Self, Failure> {
        let failed = |error: linux::Error| {
            let why = format!("starting {count} competitors: {error}");
            Unavailable::but(why, "ask for fewer, or raise ulimit -u or the cgroup's pids.max")
        };
        let lines = Shared::<[Line]>::slice(count.max(1) as usize).map_err(failed)?;
        let control = Shared::<Control>::new().map_err(failed)?;
        let mut crowd = Self { members: Vec::new(), lines, control, working: 0 };
        for index in 0..count {
            let member = match kind {
                CompetitorKind::Process => {
                    member::process(index, &crowd.lines, &crowd.control, (conditions, restraint))
                }
                CompetitorKind::Thread => member::thread(index, &crowd.lines, &crowd.control, (conditions, restraint)),
            };
            crowd.members.push(member.map_err(failed)??);
        }
        Ok(crowd)
    }

    /// Lets the first `count` members work and the others rest, and waits until all have followed.
    pub fn set_working(&mut self, count: u32) -> Result<(), Failure> {
        self.working = (count as usize).min(self.members.len());
        if self.control.0.0.swap(self.working as u32, Ordering::AcqRel) == self.working as u32 {
            return Ok(());
        }
        // It fails only for an unmapped address.
        drop(futex::wake(&self.control.0.0, u32::MAX, Scope::Shared));
        let before: Vec<u64> = self.lines.iter().map(|line| line.0.0.load(Ordering::Relaxed)).collect();
        let begin = now_ns(Clock::Monotonic);
        while !self.has_settled(&before) {
            if linux::stop::requested() {
                return Err(Failure::Stopped);
            }
            self.all_alive()?;
            if now_ns(Clock::Monotonic) - begin > PATIENCE_NS {
                let why = format!(
                    "within 10 s not all of {count} competitors got the CPU: something of higher priority holds it"
                );
                return Err(Unavailable::but(why, "choose another CPU").into());
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

    /// The words of the working members, for reading their progress between measurements.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines[..self.working]
    }

    /// CPU time of the working members so far.
    pub fn cpu_ns(&self) -> Result<i64, Failure> {
        let failed = |error: linux::Error| Unavailable::because(error.to_string()).into();
        self.members[..self.working].iter().map(Member::cpu_ns).sum::<linux::Result<i64>>().map_err(failed)
    }

    /// CPU time of all members so far, as far as the kernel reports it.
    #[must_use]
    pub fn cpu_ns_of_all(&self) -> u64 {
        self.members.iter().filter_map(|m| m.cpu_ns().ok()).map(i64::unsigned_abs).sum()
    }

    /// Checks that no member has died: figures without it would be those of another case.
    pub fn all_alive(&mut self) -> Result<(), Failure> {
        let died = |how: String| {
            let why = format!("{how} in the middle of the measurement");
            let remedy = "leave the processes named punctual-busy alone; was it the OOM killer (dmesg)?";
            Unavailable::but(why, remedy).into()
        };
        self.members.iter_mut().try_for_each(|member| member.alive().map_err(died))
    }

    /// Process ids of those members that are processes.
    #[must_use]
    pub fn process_ids(&self) -> Vec<i32> {
        self.members.iter().filter_map(Member::process_id).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.control.0.1.store(1, Ordering::Release);
        self.control.0.0.store(0, Ordering::Release);
        drop(futex::wake(&self.control.0.0, u32::MAX, Scope::Shared));
        // The members' own drops kill or join them.
    }
}

/// The sum of the members' progress. Read it outside the timed part.
#[inline]
pub(crate) fn progress(lines: &[Line]) -> u64 {
    lines.iter().fold(0, |sum, line| sum.wrapping_add(line.0.0.load(Ordering::Relaxed)))
}
