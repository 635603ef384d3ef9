//! What the native form measures: on which CPUs, how often, for how long, under which conditions, beside which load.
//!
//! Refused: an interval shorter than 10 us, a CPU that this process may not use, and SCHED_DEADLINE, which allows no affinity.

use std::time::Duration;

use punctual::conditions::{Conditions, Scope};
use punctual::{CpuSet, Policy};
use punctual_linux::sched;

use super::load::Load;
use crate::frame::{Input, PlanError};

/// Shortest interval: less is what a wake-up itself takes.
const SHORTEST: Duration = Duration::from_micros(10);
/// The real-time priorities that are tried, from the best. 99 belongs to the kernel's own threads.
const PRIORITIES: [u8; 3] = [95, 40, 1];

/// The request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Conditions of each thread, and of the process and the machine. Their CPUs are the measured ones.
    pub conditions: Conditions,
    /// A refused condition is an error.
    pub require: bool,
    /// From one wake-up to the next.
    pub interval: Duration,
    /// How long.
    pub duration: Duration,
    /// The length of a round; without it a tenth of the run, and an hour at most. A run in rounds of a given length is watched all the time.
    pub round: Option<Duration>,
    /// What the machine does meanwhile.
    pub loads: Vec<Load>,
    /// Whether each late wake-up is cut into causes.
    pub causes: bool,
    /// Of wake-ups later than this, the events go to the trace, and of no other.
    pub spikes_above: Option<Duration>,
}

/// A validated request.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) cpus: CpuSet,
    /// Of each thread, beside its CPU.
    pub(super) of_threads: Conditions,
    pub(super) of_all: Conditions,
    pub(super) require: bool,
    pub(super) interval_ns: i64,
    pub(super) duration: Duration,
    pub(super) round: Option<Duration>,
    pub(super) loads: Vec<Load>,
    pub(super) causes: bool,
    pub(super) spikes_above_ns: Option<i64>,
    /// What a real-time thread takes of its CPU at most; the machine says.
    pub(super) share: Option<f64>,
}

impl Plan {
    /// Validates a request.
    ///
    /// # Errors
    /// The part of the request that is wrong.
    pub fn new(asked: Request) -> Result<Self, PlanError> {
        if asked.interval < SHORTEST || asked.interval > asked.duration {
            let why = "must be at least 10us, and at most the duration of the run (example: 1ms)";
            return Err(PlanError::new(Input::Interval, why));
        }
        if matches!(asked.conditions.get_policy(), Some(Policy::Deadline { .. })) {
            let why = "a thread under SCHED_DEADLINE cannot be bound to its CPU; use fifo:PRIO (example: fifo:95)";
            return Err(PlanError::new(Input::Cpu, why));
        }
        let wrong = |why: String| PlanError::new(Input::Cpu, why);
        let cpus = match asked.conditions.get_cpus() {
            Some(cpus) => refused(&cpus).map_or(Ok(cpus), |why| Err(wrong(why)))?,
            None => sched::affinity(0).map(CpuSet::from_iter).map_err(|error| wrong(error.to_string()))?,
        };
        let conditions = asked.conditions.without(punctual::conditions::Condition::CPU);
        Ok(Self {
            cpus,
            of_threads: conditions.clone().only(&[Scope::Thread]),
            of_all: conditions.only(&[Scope::Process, Scope::Machine]),
            require: asked.require,
            interval_ns: i64::try_from(asked.interval.as_nanos()).unwrap_or(i64::MAX),
            duration: asked.duration,
            round: asked.round,
            loads: asked.loads,
            causes: asked.causes,
            share: None,
            spikes_above_ns: asked.spikes_above.and_then(|above| i64::try_from(above.as_nanos()).ok()),
        })
    }

    /// Whether its threads can monopolise a CPU.
    pub(super) fn is_real_time(&self) -> bool {
        self.of_threads.get_policy().is_some_and(|policy| policy.is_real_time())
    }

    /// The loads as text.
    pub(super) fn load(&self) -> Option<String> {
        let names: Vec<String> = self.loads.iter().map(Load::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Why the kernel refuses a thread these CPUs. Where some are isolated (isolcpus), it grants more than a process begins with.
fn refused(cpus: &CpuSet) -> Option<String> {
    let asked = Conditions::new().cpus(cpus).allow_irreversible();
    let first = move || asked.apply().refused.first().map(|refused| refused.why.clone());
    // Where no thread can be made, the first that measures says so.
    std::thread::Builder::new().spawn(first).ok()?.join().ok().flatten()
}

/// The highest priority under SCHED_FIFO of a few that this user may have; `None`: none of them.
#[must_use]
pub fn highest_priority() -> Option<Policy> {
    let granted = |policy: &Policy| {
        let asked = Conditions::new().policy(*policy);
        // The thread ends at once, and its policy with it.
        let is_granted = move || asked.allow_irreversible().apply().refused.is_empty();
        std::thread::Builder::new().spawn(is_granted).is_ok_and(|thread| thread.join().unwrap_or(false))
    };
    PRIORITIES.map(Policy::Fifo).into_iter().find(granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let (interval, duration) = (Duration::from_millis(1), Duration::from_secs(1));
        Request {
            conditions: Conditions::new(),
            require: false,
            interval,
            duration,
            round: None,
            loads: Vec::new(),
            causes: true,
            spikes_above: None,
        }
    }

    #[test]
    fn every_cpu_that_is_allowed_is_measured() {
        let plan = Plan::new(Request { conditions: Conditions::new().nice(5).lock_memory(), ..request() }).unwrap();
        assert_eq!(plan.cpus.len(), sched::affinity(0).unwrap().len());
        assert_eq!((plan.of_threads.get_nice(), plan.of_threads.get_lock_memory()), (Some(5), None));
        assert_eq!((plan.of_all.get_nice(), plan.of_all.get_lock_memory()), (None, Some(true)));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = |request: Request| Plan::new(request).unwrap_err().input;
        assert_eq!(refused(Request { interval: Duration::from_micros(9), ..request() }), Input::Interval);
        assert_eq!(refused(Request { interval: Duration::from_secs(2), ..request() }), Input::Interval);
        assert_eq!(refused(Request { conditions: Conditions::new().cpu(8000), ..request() }), Input::Cpu);
    }

    /// A thread with fewer CPUs than its cpuset has, as where others are isolated: the kernel grants those too.
    #[test]
    fn cpus_beyond_those_that_a_thread_begins_with_are_measured_if_asked_for() {
        let all = CpuSet::from_iter(sched::affinity(0).unwrap());
        let of_one = std::thread::spawn(|| {
            sched::set_affinity(0, &sched::affinity(0).unwrap()[..1]).unwrap();
            let plan = |conditions| Plan::new(Request { conditions, ..request() }).unwrap().cpus;
            let all = CpuSet::from_iter(sched::affinity(std::process::id() as i32).unwrap());
            (plan(Conditions::new()).len(), plan(Conditions::new().cpus(&all)))
        });
        assert_eq!(of_one.join().unwrap(), (1, all));
    }
}
