//! Where the wall time of watched threads went: a [`Budget`].
//!
//! Programs in the kernel sum the stretches of each thread at the scheduler's tracepoints (`bpf/budget.bpf.c`). Nothing is read while the
//! threads run, but for their control groups. [`Ledger::end`] ends all stretches, reads the sums and names what they are about.

mod account;
mod acks;
mod calls;
mod check;
mod code;
mod cpus;
mod files;
mod groups;
mod kernel;
mod kind;
mod limits;
mod places;
mod pressure;
mod raw;
mod sampled;
mod wakeups;

use std::path::Path;
use std::time::{Duration, Instant};

use punctual_record::Budget;

pub use self::code::functions_at;
pub use self::files::Counted;

use self::account::Found;
use self::acks::Acks;
use self::code::Mappings;
use self::cpus::Cpus;
use self::groups::Groups;
use self::kernel::{Programs, Whom};
use crate::{Error, Result, Target, names};

/// From one look at control groups, counters and mappings to the next.
const BETWEEN: Duration = Duration::from_millis(200);
/// From the begin to the first look; each is twice as long as the one before. A program may end soon, and its mappings with it.
const FIRST: Duration = Duration::from_millis(30);

/// Threads that are asked for their process at a time.
const MET: usize = 1024;
/// Batches of that size at the end, at most.
const LAST: usize = 16;
/// Processes whose control groups are looked at.
const PROCESSES: usize = 256;

/// The sums of watched threads, so far.
#[derive(Debug)]
pub struct Ledger {
    programs: Programs,
    groups: Groups,
    cpus: Cpus,
    acks: Acks,
    mappings: Mappings,
    pids: Vec<u32>,
    /// Threads up to this one were asked for their process.
    met: u32,
    next: Instant,
    between: Duration,
}

impl Ledger {
    /// Begins to sum the times of these threads, those of their children included where the target says so.
    ///
    /// # Errors
    /// Where the kernel has no BTF, or refuses the programs.
    pub fn begin(target: &Target) -> Result<Self> {
        let process = target.with_children.then(|| target.tids.first().copied()).flatten().unwrap_or_default();
        let process = names::process_of(process).unwrap_or_default();
        Self::open(target, Whom { executes: 0, process })
    }

    /// Begins when this process executes its program.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn begin_at_exec(pid: i32) -> Result<Self> {
        let target = Target { tids: Vec::new(), with_children: true };
        let mut ledger = Self::open(&target, Whom { executes: pid.cast_unsigned(), process: 0 })?;
        ledger.pids.push(pid.cast_unsigned());
        ledger.acks.look(&ledger.pids);
        Ok(ledger)
    }

    fn open(target: &Target, whom: Whom) -> Result<Self> {
        if !names::numbers_are_the_machines() {
            return Err(Error::Namespace);
        }
        let mut pids: Vec<u32> = target.tids.iter().filter_map(|tid| names::process_of(*tid)).collect();
        pids.sort_unstable();
        pids.dedup();
        let mut groups = Groups::new();
        groups.look(pids.iter().copied());
        let mut cpus = Cpus::new();
        cpus.look(&pids);
        let mut acks = Acks::default();
        acks.look(&pids);
        let mut mappings = Mappings::default();
        mappings.look(&pids);
        let programs = Programs::attach(target, whom)?;
        Ok(Self { programs, groups, cpus, acks, mappings, pids, met: 0, next: Instant::now() + FIRST, between: FIRST })
    }

    /// How long there is nothing to look at.
    #[must_use]
    pub fn until_next_look(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Looks at control groups, counters and mappings, if it is time.
    pub fn look(&mut self) {
        if Instant::now() >= self.next {
            self.programs.learn_price();
            if self.between > FIRST {
                self.programs.sample_seldom();
            }
            self.between = BETWEEN.min(2 * self.between);
            self.next = Instant::now() + self.between;
            self.meet();
            self.groups.look(self.pids.iter().copied());
            self.cpus.look(&self.pids);
            self.acks.look(&self.pids);
            self.mappings.look(&self.pids);
        }
    }

    /// Processes that are watched since the last time.
    fn meet(&mut self) {
        let last = self.programs.last_id();
        for id in (self.met + 1..=last).take(MET) {
            self.met = id;
            let Some(pid) = self.programs.process(id).filter(|pid| !self.pids.contains(pid)) else { continue };
            if self.pids.len() >= PROCESSES {
                self.pids.retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
            }
            if self.pids.len() < PROCESSES {
                self.pids.push(pid);
            }
        }
    }

    /// Threads that existed at the begin, and that are not watched because there are too many.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.programs.left_out()
    }

    /// Threads that are or were watched, those that lived only briefly included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.programs.own_threads()
    }

    /// Whether the kernel hides its functions, by which some kinds of waits are known: those for memory, for the lock of the address space, for
    /// a supervisor.
    #[must_use]
    pub fn is_without_functions(&self) -> bool {
        !self.programs.has_symbols()
    }

    /// Ends watching: where the time went.
    ///
    /// # Errors
    /// As bpf(2) says.
    pub fn end(mut self) -> Result<Budget> {
        self.programs.learn_price();
        (0..LAST).for_each(|_| self.meet());
        let ended_ns = self.programs.end()?;
        self.groups.look(self.pids.iter().copied());
        let found = Found::read(&self.programs, &self.groups, &self.mappings, ended_ns);
        let mut budget = found.budget();
        budget.checks = check::checks(&found, &budget.quotas);
        (budget.memory, budget.pressure) = (self.groups.limits.memory_limits(), self.groups.pressures.all());
        budget.steal = self.cpus.steal();
        self.acks.look(&self.pids);
        budget.delayed_acks = self.acks.late();
        let idle = self.cpus.idle();
        budget.threads.iter_mut().for_each(|thread| thread.barred_idle = self.cpus.barred(thread.tid, &idle));
        // The kernel waits until no CPU runs a program any more.
        let programs = self.programs;
        let _ = std::thread::Builder::new().name("close".into()).spawn(move || drop(programs));
        Ok(budget)
    }
}
