//! A boost: full speed around each activation of a periodic task, and not between them.
//!
//! The task reports its next activation and the end of its work. The boost raises the CPU's speed a learned lead time before each
//! activation, and lowers it afterwards. It uses the cheapest available [`Lever`]. [`Cost`] reports the price.
//!
//! The boost learns the lead from the task's own thread: at construction, and before every eighth activation. The thread runs loops of
//! fixed work from the moment of raising. The first loop at full speed shows when the CPU reached it. 95 % of those times stay below the
//! lead. If full speed comes later, the next lead is longer. Before the other activations the thread sleeps. (Under [`Lever::Clamp`] it
//! runs, because a sleeping thread requests nothing.)
//!
//! The thread has to be bound to the CPU ([`Conditions::cpus`](crate::Conditions::cpus)): loops on another CPU show
//! nothing and are not counted. The lead is then the duration of the write plus the driver's transition latency.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use punctual::cpufreq::{Boost, Cpufreq};
//! use punctual::restore::LockWait;
//!
//! # fn main() -> Result<(), punctual::cpufreq::Error> {
//! let mut boost = Boost::new(&Cpufreq::system(), 1, None, LockWait::No)?;
//! let period = Duration::from_millis(50);
//! let mut at = Instant::now() + period;
//! for _ in 0..100 {
//!     let activation = boost.wait_until(at)?;
//!     // ... what has to be done by `at + 10 ms` ...
//!     boost.done(activation, at + Duration::from_millis(10))?;
//!     at += period;
//! }
//! println!("{}", boost.finish());
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use punctual_linux::sched;

use super::guard::GovernorGuard;
use super::system::{Cpufreq, CpufreqPolicy, Energy, Lever, clamp};
use super::work::{FullSpeed, LONGEST, Lead};
use super::{Attribute, Error};
use crate::restore::{LockWait, NotRestored};

/// Trials at construction, so that the first activation already has a lead.
const TRIALS: u32 = 8;
/// Rest of the CPU before each trial: long enough for it to slow down, short enough for a start.
const REST: Duration = Duration::from_millis(5);
/// Polling interval until the kernel shows the written value.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);
/// One activation in this many is preceded by loops.
const LEARN_EVERY: u64 = 8;

/// Full speed around activations. Bound to the thread that created it. Dropping it restores the settings.
#[derive(Debug)]
pub struct Boost {
    cpufreq: Cpufreq,
    cpu: usize,
    lever: Lever,
    /// For all levers that are files, with the value that raises the speed.
    file: Option<(GovernorGuard, Attribute, String)>,
    clamp_before: u32,
    lead: Lead,
    full_speed: Option<FullSpeed>,
    activations: u64,
    raised: Option<Instant>,
    began: Instant,
    before: CpufreqPolicy,
    energy: Option<Energy>,
    cost: Cost,
    bound_to_thread: PhantomData<*const ()>,
}

/// An activation in progress.
#[derive(Debug)]
#[must_use = "hand it back to `Boost::done` when the work is done"]
pub struct Activation {
    /// Wake-up lateness of the thread.
    pub lateness: Duration,
    /// Whether loops reached full speed within the lead; absent without loops.
    pub at_full_speed: Option<bool>,
}

/// Cost and benefit of a boost.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The lever.
    pub lever: Lever,
    /// Number of times that the speed was raised and lowered again.
    pub switches: u64,
    /// Time spent on raising and lowering.
    pub switching: Duration,
    /// Time during which full speed was requested.
    pub raised: Duration,
    /// Time since construction.
    pub elapsed: Duration,
    /// Activations that met their deadline.
    pub met: u64,
    /// Activations that missed their deadline.
    pub missed: u64,
    /// Activations preceded by loops, to learn the lead.
    pub learned: u64,
    /// Those of them in which full speed came later than the lead.
    pub not_at_full_speed: u64,
    /// CPU time of those loops, without the trials before the first activation.
    pub learning: Duration,
    /// The last lead time.
    pub lead: Duration,
    /// The frequency shown by the kernel while the speed was first raised, in kHz: full speed in this context. If it is
    /// below the upper limit, the lever does not work as it should. Absent if the kernel does not show it.
    pub full_khz: Option<u64>,
    /// Time at each frequency (kHz) since construction, to 10 ms; empty if the kernel does not count it.
    pub time_in_state: Vec<(u64, Duration)>,
    /// Energy of all packages since construction, in µJ; absent if it is not counted or not readable.
    pub energy_uj: Option<u64>,
}

impl Boost {
    /// A boost for the calling thread on `cpu`, by this lever, or by the cheapest available one. Takes some 100 ms, in
    /// which the speed is raised and lowered a few times to learn the lead.
    ///
    /// # Errors
    /// [`Error::NoLever`] names the levers tried; [`Error::NotExposed`] if the machine has no cpufreq.
    pub fn new(cpufreq: &Cpufreq, cpu: usize, lever: Option<Lever>, wait: LockWait) -> Result<Self, Error> {
        let policy = cpufreq.policies_of(&[cpu])?.into_iter().next().ok_or(Error::NoSuchCpu { cpu })?;
        let wanted = lever.map_or_else(|| Lever::ALL.to_vec(), |lever| vec![lever]);
        let mut why = Vec::new();
        let suits = |lever: &Lever| match lever.suits(&policy) {
            Ok(()) => true,
            Err(no) => {
                why.push(format!("{lever}: {no}"));
                false
            }
        };
        let Some(lever) = wanted.into_iter().find(suits) else {
            return Err(Error::NoLever { cpu, why: why.join("; ") });
        };
        let file = match lever.request(&policy) {
            None => None,
            Some((attribute, value)) => Some((cpufreq.guard(&[cpu], wait)?, attribute, value)),
        };
        let mut boost = Self {
            cpufreq: cpufreq.clone(),
            cpu,
            lever,
            file,
            clamp_before: sched::lower_clamp(0).unwrap_or(0),
            lead: Lead::new(),
            full_speed: None,
            activations: 0,
            raised: None,
            began: Instant::now(),
            before: policy,
            energy: None,
            cost: Cost::none(lever),
            bound_to_thread: PhantomData,
        };
        boost.begin()?;
        Ok(boost)
    }

    /// Raises and lowers the speed a few times: missing permissions show now, and the lead gets its first value.
    fn begin(&mut self) -> Result<(), Error> {
        // The first time with all checks.
        if let Some((guard, attribute, value)) = &mut self.file {
            self.raised = Some(Instant::now());
            guard.set_one(self.before.number, *attribute, value)?;
            self.let_go()?;
            std::thread::sleep(REST);
        }
        let begin = self.raise()?;
        self.lead.observe(begin.elapsed() + self.transition());
        self.sleep_until_taken_up(begin + LONGEST);
        self.full_speed = self.is_on_its_cpu().then(FullSpeed::measure);
        let now = self.policy();
        self.let_go()?;
        let full_khz = now.and_then(|policy| policy.hardware_khz.or(policy.current_khz));
        if let Some(full_speed) = self.full_speed {
            self.lead = Lead::new();
            for _ in 0..TRIALS {
                std::thread::sleep(REST);
                let begin = self.raise()?;
                let raising = begin.elapsed();
                self.sleep_until_taken_up(begin + LONGEST);
                // Full speed that never comes cannot be waited for: only the raising counts then.
                self.lead.observe(full_speed.reached(begin, begin + LONGEST).unwrap_or(raising));
                self.let_go()?;
            }
        }
        self.before = self.policy().unwrap_or_else(|| self.before.clone());
        self.energy = self.cpufreq.energy();
        (self.cost, self.began) = (Cost { full_khz, ..Cost::none(self.lever) }, Instant::now());
        Ok(())
    }

    /// The lever in use.
    #[must_use]
    pub const fn lever(&self) -> Lever {
        self.lever
    }

    /// The current lead time before an activation.
    #[must_use]
    pub const fn lead(&self) -> Duration {
        self.lead.time()
    }

    /// Sleeps until the lead time before `at`, raises the speed, and sleeps until `at`. Never returns early. Before one
    /// activation in eight it raises the speed twice as early and loops, to learn the lead.
    pub fn wait_until(&mut self, at: Instant) -> Result<Activation, Error> {
        let lead = self.lead.time();
        let learns = self.full_speed.filter(|_| self.activations.is_multiple_of(LEARN_EVERY));
        self.activations += 1;
        // Twice as early, to see times that exceed the lead.
        let early = learns.map_or(lead, |full_speed| lead * 2 + full_speed.shortest_look());
        sleep_until(at.checked_sub(early).unwrap_or(at));
        let raised = self.raise()?;
        let at_full_speed = learns.and_then(|full_speed| self.learn(&full_speed, raised, at, lead));
        if let (Lever::Clamp, Some(full_speed)) = (self.lever, self.full_speed) {
            full_speed.run_until(at);
        }
        sleep_until(at);
        Ok(Activation { lateness: at.elapsed(), at_full_speed })
    }

    /// Loops until full speed or the end of the time. Records whether full speed came within the lead.
    fn learn(&mut self, full_speed: &FullSpeed, raised: Instant, at: Instant, lead: Duration) -> Option<bool> {
        let time = at.saturating_duration_since(raised);
        if time.is_zero() || !self.is_on_its_cpu() {
            return None;
        }
        self.sleep_until_taken_up(at);
        let begin = Instant::now();
        let reached = full_speed.reached(raised, at);
        self.cost.learning += begin.elapsed();
        // A thread that woke too late for the whole lead has learned nothing if it saw no full speed.
        if !self.is_on_its_cpu() || (reached.is_none() && time < lead) {
            return None;
        }
        let in_time = reached.is_some_and(|took| took <= lead);
        self.cost.learned += 1;
        self.cost.not_at_full_speed += u64::from(!in_time);
        match reached {
            Some(took) => self.lead.observe(took),
            None => self.lead.was_too_short(),
        }
        Some(in_time)
    }

    /// Sleeps until the kernel shows the written value, or until `until`. If a kernel worker applies the value, a
    /// looping thread would delay it.
    fn sleep_until_taken_up(&self, until: Instant) {
        let Some((guard, attribute, value)) = &self.file else { return };
        while attribute.form().is_taken_up_later && Instant::now() < until && !guard.shows(*attribute, value) {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn is_on_its_cpu(&self) -> bool {
        self.before.cpus.contains(&rustix::thread::sched_getcpu())
    }

    /// Lowers the speed, and counts whether the work met `deadline`.
    pub fn done(&mut self, activation: Activation, deadline: Instant) -> Result<(), Error> {
        let Activation { .. } = activation;
        match Instant::now() <= deadline {
            true => self.cost.met += 1,
            false => self.cost.missed += 1,
        }
        self.let_go()
    }

    /// The cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let mut cost = self.cost.clone();
        cost.lead = self.lead.time();
        cost.elapsed = self.began.elapsed();
        cost.raised += self.raised.map_or(Duration::ZERO, |since| since.elapsed());
        cost.energy_uj = self.energy.as_ref().and_then(Energy::since_uj);
        cost.time_in_state = self.policy().map(|now| now.time_in_state_since(&self.before)).unwrap_or_default();
        cost
    }

    /// Ends the boost and returns its cost.
    #[must_use]
    pub fn finish(self) -> Cost {
        self.cost()
    }

    /// Ends the boost and returns the settings that could not be restored.
    pub fn restore(mut self) -> Vec<NotRestored> {
        // The guard restores a lever that cannot be lowered, or reports its failure.
        let _ = self.let_go();
        self.file.take().map(|(guard, ..)| guard.restore()).unwrap_or_default()
    }

    /// The time when raising began.
    fn raise(&mut self) -> Result<Instant, Error> {
        if let Some(since) = self.raised {
            return Ok(since);
        }
        let begin = Instant::now();
        self.raised = Some(begin);
        match &self.file {
            Some((guard, attribute, value)) => guard.rewrite(*attribute, value)?,
            None => clamp(sched::FULL_CLAMP)?,
        }
        self.cost.switches += 1;
        self.cost.switching += begin.elapsed();
        Ok(begin)
    }

    fn let_go(&mut self) -> Result<(), Error> {
        let Some(since) = self.raised.take() else { return Ok(()) };
        let begin = Instant::now();
        self.cost.raised += begin - since;
        let outcome = match &self.file {
            Some((guard, attribute, _)) => guard.write_back(*attribute),
            None => clamp(self.clamp_before),
        };
        self.cost.switching += begin.elapsed();
        outcome
    }

    fn policy(&self) -> Option<CpufreqPolicy> {
        self.cpufreq.policies_of(&[self.cpu]).ok()?.into_iter().next()
    }

    /// The driver's transition latency.
    fn transition(&self) -> Duration {
        Duration::from_nanos(self.before.transition_latency_ns.unwrap_or(0))
    }
}

impl Drop for Boost {
    fn drop(&mut self) {
        // The guard restores the rest.
        let _ = self.let_go();
    }
}

impl Cost {
    const fn none(lever: Lever) -> Self {
        Self {
            lever,
            switches: 0,
            switching: Duration::ZERO,
            raised: Duration::ZERO,
            elapsed: Duration::ZERO,
            met: 0,
            missed: 0,
            learned: 0,
            not_at_full_speed: 0,
            learning: Duration::ZERO,
            lead: Duration::ZERO,
            full_khz: None,
            time_in_state: Vec::new(),
            energy_uj: None,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lever, switches, met, missed, learned, not_at_full_speed, .. } = self;
        let share = self.raised.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9) * 100.0;
        write!(
            f,
            "{met} deadlines met, {missed} missed; by {lever}, raised {switches} times, {share:.0} % of the time, \
             {:?} spent in switching; lead {:?}, full speed not there in time {not_at_full_speed} of {learned} times",
            self.switching, self.lead
        )?;
        if let Some(uj) = self.energy_uj {
            write!(f, "; {:.3} J", uj as f64 / 1e6)?;
        }
        for (khz, time) in &self.time_in_state {
            write!(f, "; {:.2} GHz {time:?}", *khz as f64 / 1e6)?;
        }
        Ok(())
    }
}

fn sleep_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}
