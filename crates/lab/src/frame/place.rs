//! Where an experiment measures. Its supervisor stays on other CPUs meanwhile.
//!
//! A supervisor on a measured CPU would disturb the measurement. A thread of higher priority on that CPU would keep
//! it from ending the run.

use punctual::CpuSet;
use punctual_linux::{affinity, sched};

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

    /// On one CPU, or anywhere.
    pub(crate) fn on_cpu(cpu: Option<usize>, real_time: bool) -> Self {
        Self { cpus: cpu.into_iter().collect(), real_time }
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
    let allowed = affinity::affinity(0).map_err(|error| wrong(format!("the CPUs of this process: {error}")))?;
    let allowed = CpuSet::of(allowed);
    match asked.map(CpuSet::as_slice) {
        None => choose(&allowed).ok_or_else(|| wrong("this process may use no CPU".into())),
        Some([cpu]) if allowed.contains(*cpu) => Ok(*cpu),
        Some([cpu]) => Err(wrong(format!(
            "this process may not run on CPU {cpu}, but on CPU {allowed} (offline CPUs are put online in /sys/devices/system/cpu)"
        ))),
        Some(several) => Err(wrong(format!(
            "must be one CPU, not {} (example: {})",
            CpuSet::of(several.iter().copied()),
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
        let allowed = affinity::affinity(0).unwrap_or_default();
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
            drop(affinity::set_affinity(*thread, cpus));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_steps_aside_and_back() {
        let before = affinity::affinity(0).unwrap();
        let place = Place { cpus: vec![before[0]], real_time: false };
        let nice = sched::nice(0).unwrap();
        let mut aside = Aside::step(&place, &[]);
        aside.hurry();
        if before.len() == 1 {
            assert!(aside.shares_the_only_cpu(&place));
            assert_eq!(affinity::affinity(0).unwrap(), before);
        } else {
            assert!(!aside.shares_the_only_cpu(&place));
            assert_eq!(affinity::affinity(0).unwrap(), before[1..]);
            assert_eq!(aside.of_a_measuring_thread(), before);
        }
        drop(aside);
        assert_eq!(affinity::affinity(0).unwrap(), before);
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
        let before = affinity::affinity(0).unwrap();
        for place in [Place { cpus: before.clone(), real_time: true }, Place::default()] {
            let aside = Aside::step(&place, &[]);
            assert_eq!(affinity::affinity(0).unwrap(), before);
            assert!(aside.of_a_measuring_thread().is_empty());
            assert_eq!(aside.shares_the_only_cpu(&place), place.cpus == before || before.len() == 1);
        }
    }
}
