//! Where an experiment measures ([`Place`]), and who supervises it from elsewhere ([`Aside`], [`Warden`]).
//!
//! A supervisor on a measured CPU would disturb the measurement, and a thread of higher priority on that CPU would keep
//! it from ending the run. So it stays on other CPUs meanwhile.
//!
//! A thread that a higher priority keeps off its CPU cannot die, not even by SIGKILL; nor can the children whose end is
//! bound to it. So the warden, a small process of its own, sleeps until the command's main thread is gone, however that
//! happens. It then moves the rest of the command off the measured CPUs (`linux::sched`), ends the command's children, and
//! exits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual::CpuSet;
use punctual_linux::child::ParentDeath;
use punctual_linux::child::{self, Child};
use punctual_linux::memory::Shared;
use punctual_linux::sched;
use rustix::process::{Pid, Signal, kill_process, setsid};

use super::plan::{Input, PlanError};

/// Nice value of a supervising thread, if permitted. On a busy machine it must be able to end a run without delay.
pub(crate) const HURRIED: i32 = -15;

/// The calling thread at a lower nice value, until this is dropped.
#[derive(Debug)]
pub(crate) struct Nice {
    tid: i32,
    before: i32,
}

impl Nice {
    /// None where setpriority(2) is refused, or the thread has no higher value.
    pub(crate) fn lowered_to(nice: i32) -> Option<Self> {
        let tid = sched::current_thread_id();
        let before = sched::nice(tid).ok().filter(|before| *before > nice)?;
        sched::set_nice(tid, nice).ok()?;
        Some(Self { tid, before })
    }
}

impl Drop for Nice {
    fn drop(&mut self) {
        // A higher value is never refused.
        drop(sched::set_nice(self.tid, self.before));
    }
}

/// The CPUs on which an experiment measures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The CPUs. None: wherever the scheduler puts its threads.
    pub(crate) cpus: Vec<usize>,
    /// Its threads or processes run under a real-time policy.
    pub(crate) real_time: bool,
}

impl Place {
    /// On these CPUs, or anywhere.
    pub(crate) fn on(cpus: Option<&CpuSet>, real_time: bool) -> Self {
        Self { cpus: cpus.map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default(), real_time }
    }
}

/// The CPU to measure on: the one requested, or the last one that this process may use. The first ones serve most
/// interrupts.
pub fn one_cpu(asked: Option<&CpuSet>) -> Result<usize, PlanError> {
    allowed_cpu(Input::Cpu, asked, |allowed| allowed.iter().last())
}

/// The CPU requested, or the one that `choose` picks from those that this process may use.
pub(crate) fn allowed_cpu(
    input: Input,
    asked: Option<&CpuSet>,
    choose: impl Fn(&CpuSet) -> Option<usize>,
) -> Result<usize, PlanError> {
    let wrong = |why: String| PlanError::new(input, why);
    let allowed = sched::affinity(0).map_err(|error| wrong(format!("the CPUs of this process: {error}")))?;
    let allowed = CpuSet::from_iter(allowed);
    match asked.map(CpuSet::as_slice) {
        None => choose(&allowed).ok_or_else(|| wrong("this process may use no CPU".into())),
        Some([cpu]) if allowed.contains(*cpu) => Ok(*cpu),
        Some([cpu]) => Err(wrong(format!(
            "this process may not run on CPU {cpu}, but on CPU {allowed} (offline CPUs are put online in /sys/devices/system/cpu)"
        ))),
        Some(several) => Err(wrong(format!(
            "must be one CPU, not {} (example: {})",
            CpuSet::from_iter(several.iter().copied()),
            several[0]
        ))),
    }
}

/// Supervising threads that were moved off the measured CPUs. Dropping this restores their affinity.
#[derive(Debug)]
pub(crate) struct Aside {
    /// The calling thread's CPUs before the move. Empty: no thread was moved.
    before: Vec<usize>,
    others: Vec<usize>,
    threads: Vec<i32>,
    nice: Option<Nice>,
}

impl Aside {
    /// Moves the calling thread and `threads` off the place's CPUs, as far as the caller may use others.
    pub(crate) fn step(place: &Place, threads: &[i32]) -> Self {
        let allowed = sched::affinity(0).unwrap_or_default();
        let others: Vec<usize> = allowed.iter().copied().filter(|cpu| !place.cpus.contains(cpu)).collect();
        let mut aside = Self { before: Vec::new(), others, threads: threads.to_vec(), nice: None };
        aside.threads.push(0);
        if !place.cpus.is_empty() && !aside.others.is_empty() && allowed.len() > aside.others.len() {
            aside.before = allowed;
            aside.move_to(&aside.others);
        }
        aside
    }

    /// Raises the calling thread above other programs under SCHED_OTHER until this is dropped. Call it after the measuring
    /// thread was started.
    pub(crate) fn hurry(&mut self) {
        self.nice = Nice::lowered_to(HURRIED);
    }

    /// The CPUs that supervising threads may use: all usable ones that are not measured.
    pub(crate) fn others(&self) -> &[usize] {
        &self.others
    }

    /// Whether all usable CPUs are measured.
    pub(crate) fn shares_the_only_cpu(&self, place: &Place) -> bool {
        self.others.is_empty() || (place.cpus.is_empty() && self.others.len() == 1)
    }

    /// The CPUs that the measuring thread has to set, since it inherits those of its supervisor. Empty: none to set.
    pub(crate) fn of_a_measuring_thread(&self) -> Vec<usize> {
        self.before.clone()
    }

    fn move_to(&self, cpus: &[usize]) {
        for thread in &self.threads {
            // Ignored: the thread has ended, or may not move and supervises from where it is.
            drop(sched::set_affinity(*thread, cpus));
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            self.move_to(&self.before);
        }
    }
}

/// Its name in `ps`.
const NAME: &str = "punctual-warden";
/// Interval of checks for remaining processes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Number of checks before it gives up: three seconds.
const LOOKS: u32 = 300;

/// Killed on drop, when the command has ended everything itself.
#[derive(Debug)]
pub(crate) struct Warden {
    child: Child,
}

impl Warden {
    /// Starts the process. Call it from the command's main thread.
    pub(crate) fn start() -> punctual_linux::Result<Self> {
        let owner = std::process::id() as i32;
        child::share_ids();
        let ready = Shared::<AtomicU32>::new()?;
        let theirs = ready.clone();
        let mut child = Child::spawn(NAME, move || {
            // It must survive a signal to the command's process group.
            if setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                theirs.store(1, Ordering::Release);
                std::mem::forget(Nice::lowered_to(HURRIED));
                death.wait();
                end_what_is_left(owner);
            }
        })?;
        while ready.load(Ordering::Acquire) == 0 && child.ended()?.is_none() {
            std::thread::yield_now();
        }
        Ok(Self { child })
    }

    /// Restricts it to these CPUs. A refusal is harmless: the process may then run anywhere.
    pub(crate) fn stay_on(&self, cpus: &[usize]) {
        drop(sched::set_affinity(self.child.id(), cpus));
    }

    /// Lets it live on until the command has ended, and do its work then.
    pub(crate) fn outlive(self) {
        std::mem::forget(self);
    }
}

/// Moves the threads of the process off the measured CPUs and ends its children, until none is left.
fn end_what_is_left(owner: i32) {
    let own = std::process::id() as i32;
    for _ in 0..LOOKS {
        sched::free_process(owner, None);
        let mut children = child::ids();
        children.retain(|child| *child != own && is_ours(*child) && !sched::threads_of(*child).is_empty());
        for child in &children {
            sched::free_process(*child, None);
            if let Some(pid) = Pid::from_raw(*child) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if children.is_empty() && sched::threads_of(owner).is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Name of the keeper of IPC names.
pub(crate) const KEEPER: &str = "punctual-keeper";

/// Whether the process has one of this project's names, so that a reused process id does no harm. The keeper of IPC
/// names is left alone: it works after the command has ended, and ends by itself.
fn is_ours(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.starts_with("punctual-") && name.trim_end() != KEEPER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_steps_aside_and_back() {
        let before = sched::affinity(0).unwrap();
        let place = Place { cpus: vec![before[0]], real_time: false };
        let nice = sched::nice(0).unwrap();
        let mut aside = Aside::step(&place, &[]);
        aside.hurry();
        if before.len() == 1 {
            assert!(aside.shares_the_only_cpu(&place));
            assert_eq!(sched::affinity(0).unwrap(), before);
        } else {
            assert!(!aside.shares_the_only_cpu(&place));
            assert_eq!(sched::affinity(0).unwrap(), before[1..]);
            assert_eq!(aside.of_a_measuring_thread(), before);
        }
        drop(aside);
        assert_eq!(sched::affinity(0).unwrap(), before);
        assert_eq!(sched::nice(0).unwrap(), nice);
    }

    #[test]
    fn the_nice_value_is_put_back() {
        let own = sched::current_thread_id();
        let before = sched::nice(own).unwrap();
        let Some(nice) = Nice::lowered_to(-20) else {
            return punctual_testing::lacks(punctual_testing::Lack::Capability("CAP_SYS_NICE", 23));
        };
        assert_eq!(sched::nice(own).unwrap(), -20);
        let child = std::thread::spawn(move || sched::nice(sched::current_thread_id()).unwrap());
        assert_eq!(child.join().unwrap(), -20, "a thread inherits it");
        drop(nice);
        assert_eq!(sched::nice(own).unwrap(), before);
    }

    #[test]
    fn nobody_moves_where_every_cpu_is_measured_or_none_in_particular() {
        let before = sched::affinity(0).unwrap();
        for place in [Place { cpus: before.clone(), real_time: true }, Place::default()] {
            let aside = Aside::step(&place, &[]);
            assert_eq!(sched::affinity(0).unwrap(), before);
            assert!(aside.of_a_measuring_thread().is_empty());
            assert_eq!(aside.shares_the_only_cpu(&place), place.cpus == before || before.len() == 1);
        }
    }
}
