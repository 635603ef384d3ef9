//! Where an experiment measures, and where whoever supervises it stays meanwhile: on other CPUs.
//!
//! A thread on a measured CPU disturbs what is measured there, and cannot end it while a higher priority holds that CPU.

use punctual::conditions::CpuSet;
use punctual_linux::{affinity, sched};

/// Nice value of a supervising thread, where it may have it: on a busy machine it must not wait for its turn to end a run.
const HURRIED: i32 = -15;

/// The calling thread has precedence over programs under SCHED_OTHER. Without the privilege nothing changes. Threads and processes that it
/// starts inherit it.
pub(crate) fn hurry() {
    // Refused without CAP_SYS_NICE: then the thread supervises as well as it can.
    drop(sched::set_nice(0, HURRIED));
}

/// The CPUs on which an experiment measures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The CPUs; none: wherever the scheduler puts its threads.
    pub cpus: Vec<usize>,
    /// Threads or processes of it run under a real-time policy.
    pub real_time: bool,
}

impl Place {
    /// On these CPUs, or anywhere.
    #[must_use]
    pub fn on(cpus: Option<&CpuSet>, real_time: bool) -> Self {
        Self { cpus: cpus.map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default(), real_time }
    }

    /// On one CPU, or anywhere.
    #[must_use]
    pub fn on_cpu(cpu: Option<usize>, real_time: bool) -> Self {
        Self { cpus: cpu.into_iter().collect(), real_time }
    }
}

/// Supervising threads that were moved off the measured CPUs; they may go anywhere again when this is dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    /// CPUs of the calling thread before; empty: nobody was moved.
    before: Vec<usize>,
    others: Vec<usize>,
    threads: Vec<i32>,
    /// Nice value of the calling thread, where it was changed.
    nice: Option<i32>,
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

    /// [`hurry`], until this is dropped. To be called after the measuring thread was started.
    pub(crate) fn hurry(&mut self) {
        self.nice = sched::nice(0).ok();
        hurry();
    }

    /// The CPUs where the supervising threads are, if any is theirs alone.
    pub(crate) fn others(&self) -> &[usize] {
        &self.others
    }

    /// Whether measured CPUs are all that there are.
    pub(crate) fn shares_the_only_cpu(&self, place: &Place) -> bool {
        self.others.is_empty() || (place.cpus.is_empty() && self.others.len() == 1)
    }

    /// What a thread needs to know that the calling one starts, to run where it may.
    pub(crate) fn of_a_measuring_thread(&self) -> Vec<usize> {
        self.before.clone()
    }

    fn move_to(&self, cpus: &[usize]) {
        for thread in &self.threads {
            // A thread that has ended, or may not move, supervises as well as it can.
            drop(affinity::set_affinity(*thread, cpus));
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            self.move_to(&self.before);
        }
        if let Some(nice) = self.nice {
            drop(sched::set_nice(0, nice));
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
