//! A boost: speed around each activation of a periodic task, and not between them.
//!
//! In goes a CPU and what a periodic task knows of itself: when it is activated next, and when it was done. The boost raises the
//! speed a learned lead time before each activation, by the cheapest [`Lever`] that this machine has, and lets go after it. Out comes
//! what that cost ([`Cost`]).
//!
//! The lead is learned from the task's own thread: when the boost is made, and before every eighth activation from then on, the thread runs
//! loops of fixed work from the moment of raising, and the first that takes no longer than at full speed tells when the speed was there. The
//! lead is what all but one in twenty of those times stayed below. Where the speed was not there in time, the next lead is longer. Before the other
//! activations the thread sleeps (under [`Lever::Clamp`] it runs, because a sleeping thread asks for nothing).
//!
//! The thread has to be bound to the CPU ([`Conditions::cpus`](crate::Conditions::cpus)): loops on another tell nothing, and are not counted. The lead is
//! then what the write took and what the driver says a change takes.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use punctual::cpufreq::{Boost, Cpufreq, Wait};
//!
//! # fn main() -> Result<(), punctual::cpufreq::Error> {
//! let mut boost = Boost::new(&Cpufreq::system(), 1, None, Wait::No)?;
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

use punctual_linux::uclamp;

use super::attribute::Attribute;
use super::energy::Energy;
use super::error::Error;
use super::full_speed::FullSpeed;
use super::guard::GovernorGuard;
use super::lead::{LONGEST, Lead};
use super::lever::{Lever, clamp};
use super::policy::Policy;
use super::put_back::NotRestored;
use super::state::Wait;
use super::system::Cpufreq;

/// Times that the speed is raised and let go when a boost is made, so that the first activation has a lead already.
const TRIALS: u32 = 8;
/// How long the CPU rests before each of them: long enough for it to slow down, short enough for a start.
const REST: Duration = Duration::from_millis(5);
/// How often it is looked whether the kernel has taken up what was written.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);
/// Of so many activations one is preceded by loops.
const LEARN_EVERY: u64 = 8;

/// Speed around activations. Bound to the thread that made it, whose task it is. What was found comes back when it is dropped.
#[derive(Debug)]
pub struct Boost {
    cpufreq: Cpufreq,
    cpu: usize,
    lever: Lever,
    /// For all levers that are files, with what is written to raise.
    file: Option<(GovernorGuard, Attribute, String)>,
    clamp_before: u32,
    lead: Lead,
    full_speed: Option<FullSpeed>,
    activations: u64,
    raised: Option<Instant>,
    began: Instant,
    before: Policy,
    energy: Option<Energy>,
    cost: Cost,
    bound_to_thread: PhantomData<*const ()>,
}

/// An activation under way.
#[derive(Debug)]
#[must_use = "hand it back to `Boost::done` when the work is done"]
pub struct Activation {
    /// How late the thread woke.
    pub lateness: Duration,
    /// Whether loops were at full speed within the lead; absent where none were run.
    pub at_full_speed: Option<bool>,
}

/// What a boost cost, and what it was good for.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The lever.
    pub lever: Lever,
    /// Times that the speed was raised and let go again.
    pub switches: u64,
    /// Time spent in raising and letting go.
    pub switching: Duration,
    /// Time for which the speed was asked for.
    pub raised: Duration,
    /// Since the boost was made.
    pub elapsed: Duration,
    /// Activations whose work was done in time.
    pub met: u64,
    /// Activations whose work was not.
    pub missed: u64,
    /// Activations that were preceded by loops, to learn the lead.
    pub learned: u64,
    /// How many of them showed that full speed comes later than the lead before.
    pub not_at_full_speed: u64,
    /// CPU time spent in those loops, the trials before the first activation not counted.
    pub learning: Duration,
    /// The lead time as it was at last.
    pub lead: Duration,
    /// The frequency that the kernel showed while the speed was raised for the first time, in kHz: what counts as full speed here. Where it is
    /// below the upper limit, the lever does not do what it should. Absent where the kernel does not tell.
    pub full_khz: Option<u64>,
    /// Time at each frequency (kHz) since the boost was made, to 10 ms; empty where the kernel does not count.
    pub time_in_state: Vec<(u64, Duration)>,
    /// Energy of all packages since the boost was made, in µJ; absent where it is not counted or not readable.
    pub energy_uj: Option<u64>,
}

impl Boost {
    /// A boost for the calling thread on `cpu`, by this lever, or by the cheapest that the machine has. Takes some 100 ms, in which the speed is
    /// raised and let go a few times to learn the lead.
    ///
    /// # Errors
    /// [`Error::NoLever`] names what was looked for; [`Error::NotExposed`] where the machine has no cpufreq.
    pub fn new(cpufreq: &Cpufreq, cpu: usize, lever: Option<Lever>, wait: Wait) -> Result<Self, Error> {
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
            clamp_before: uclamp::minimum(0).unwrap_or(0),
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

    /// Raises and lets go a few times: what is not allowed is found out now, and the lead has a first value.
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
                // What does not come at all cannot be waited for: only the raising counts then.
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

    /// How long before an activation the speed is raised at present.
    #[must_use]
    pub const fn lead(&self) -> Duration {
        self.lead.time()
    }

    /// Sleeps until the lead time before `at`, raises the speed, and sleeps until `at`. Never returns early. Before one activation of eight it
    /// raises twice as early and loops, to learn.
    pub fn wait_until(&mut self, at: Instant) -> Result<Activation, Error> {
        let lead = self.lead.time();
        let learns = self.full_speed.filter(|_| self.activations.is_multiple_of(LEARN_EVERY));
        self.activations += 1;
        // Twice as early, so that times are seen that are longer than the lead.
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

    /// Loops until full speed is there or the time is over, and takes in when that was: whether within the lead.
    fn learn(&mut self, full_speed: &FullSpeed, raised: Instant, at: Instant, lead: Duration) -> Option<bool> {
        let time = at.saturating_duration_since(raised);
        if time.is_zero() || !self.is_on_its_cpu() {
            return None;
        }
        self.sleep_until_taken_up(at);
        let begin = Instant::now();
        let reached = full_speed.reached(raised, at);
        self.cost.learning += begin.elapsed();
        // A thread that woke too late to see the lead through has learned nothing if it saw no full speed.
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

    /// Sleeps until the kernel shows what was written, or `until`: where a worker has to take it up, a thread that loops instead would keep it waiting.
    fn sleep_until_taken_up(&self, until: Instant) {
        let Some((guard, attribute, value)) = &self.file else { return };
        while attribute.is_taken_up_later() && Instant::now() < until && !guard.shows(*attribute, value) {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn is_on_its_cpu(&self) -> bool {
        self.before.cpus.contains(&rustix::thread::sched_getcpu())
    }

    /// Lets go, and counts whether the work was done by `deadline`.
    pub fn done(&mut self, activation: Activation, deadline: Instant) -> Result<(), Error> {
        let Activation { .. } = activation;
        match Instant::now() <= deadline {
            true => self.cost.met += 1,
            false => self.cost.missed += 1,
        }
        self.let_go()
    }

    /// What it has cost so far.
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

    /// Ends it, and tells what it cost.
    #[must_use]
    pub fn finish(self) -> Cost {
        self.cost()
    }

    /// Ends it, and tells what could not be put back.
    pub fn restore(mut self) -> Vec<NotRestored> {
        // A lever that cannot be let go is among what the guard puts back, or tells that it could not.
        let _ = self.let_go();
        self.file.take().map(|(guard, ..)| guard.restore()).unwrap_or_default()
    }

    /// When raising began.
    fn raise(&mut self) -> Result<Instant, Error> {
        if let Some(since) = self.raised {
            return Ok(since);
        }
        let begin = Instant::now();
        self.raised = Some(begin);
        match &self.file {
            Some((guard, attribute, value)) => guard.rewrite(*attribute, value)?,
            None => clamp(uclamp::FULL)?,
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

    fn policy(&self) -> Option<Policy> {
        self.cpufreq.policies_of(&[self.cpu]).ok()?.into_iter().next()
    }

    /// What the driver says a change of frequency takes.
    fn transition(&self) -> Duration {
        Duration::from_nanos(self.before.transition_latency_ns.unwrap_or(0))
    }
}

impl Drop for Boost {
    fn drop(&mut self) {
        // The guard puts back what this cannot.
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
