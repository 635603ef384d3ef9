//! A boost: speed around each activation of a periodic task, and not between them.
//!
//! In goes a CPU and what a periodic task knows of itself: when it is activated next, and when it was done. The boost raises the
//! speed a learned lead time before each activation, by the cheapest [`Lever`] that this machine has, and lets go after it. Out comes
//! what that cost ([`Cost`]). The lead is learned from what raising took, and from the frequency that the kernel showed when
//! the task woke: where it was not up yet, the next lead is longer.
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

use super::energy::Energy;
use super::error::Error;
use super::guard::GovernorGuard;
use super::lead::Lead;
use super::lever::Lever;
use super::policy::Policy;
use super::put_back::NotRestored;
use super::state::Wait;
use super::system::Cpufreq;

/// How far below the upper limit a frequency still counts as full speed: 5 %.
const FULL_PER_CENT: u64 = 95;

/// Speed around activations. Bound to the thread that made it, whose task it is. What was found comes back when it is dropped.
#[derive(Debug)]
pub struct Boost {
    cpufreq: Cpufreq,
    cpu: usize,
    lever: Lever,
    guard: Option<GovernorGuard>,
    clamp_before: u32,
    lead: Lead,
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
    /// Whether the kernel showed full speed when it woke; absent where it does not tell.
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
    /// Activations that woke before full speed was there, of those that the kernel told about.
    pub not_at_full_speed: u64,
    /// The lead time as it was at last.
    pub lead: Duration,
    /// Time at each frequency (kHz) since the boost was made, to 10 ms; empty where the kernel does not count.
    pub time_in_state: Vec<(u64, Duration)>,
    /// Energy of all packages since the boost was made, in µJ; absent where it is not counted or not readable.
    pub energy_uj: Option<u64>,
}

impl Boost {
    /// A boost for the calling thread on `cpu`, by this lever, or by the cheapest that the machine has.
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
        let guard = match lever {
            Lever::Clamp => None,
            _ => Some(cpufreq.guard(&[cpu], wait)?),
        };
        let mut boost = Self {
            cpufreq: cpufreq.clone(),
            cpu,
            lever,
            guard,
            clamp_before: uclamp::minimum(0).unwrap_or(0),
            lead: Lead::new(),
            raised: None,
            began: Instant::now(),
            before: policy,
            energy: cpufreq.energy(),
            cost: Cost::none(lever),
            bound_to_thread: PhantomData,
        };
        // Raised once and let go at once: what is not allowed is found out now, and the lead has a first value.
        boost.raise()?;
        boost.let_go()?;
        (boost.cost, boost.began) = (Cost::none(lever), Instant::now());
        Ok(boost)
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

    /// Sleeps until the lead time before `at`, raises the speed, and sleeps until `at`. Never returns early.
    pub fn wait_until(&mut self, at: Instant) -> Result<Activation, Error> {
        sleep_until(at.checked_sub(self.lead.time()).unwrap_or(at));
        self.raise()?;
        sleep_until(at);
        let at_full_speed = self.is_at_full_speed();
        if at_full_speed == Some(false) {
            self.cost.not_at_full_speed += 1;
            // It took longer than it was given: how much longer is not known, so twice as long is tried.
            self.lead.observe(self.lead.time() * 2);
        }
        Ok(Activation { lateness: at.elapsed(), at_full_speed })
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
        cost.time_in_state = self.policy().map(|now| spent(&self.before, &now)).unwrap_or_default();
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
        self.guard.take().map(GovernorGuard::restore).unwrap_or_default()
    }

    fn raise(&mut self) -> Result<(), Error> {
        if self.raised.is_some() {
            return Ok(());
        }
        let begin = Instant::now();
        self.raised = Some(begin);
        self.lever.raise(self.guard.as_mut())?;
        let took = begin.elapsed();
        self.lead.observe(took + self.transition());
        self.cost.switches += 1;
        self.cost.switching += took;
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), Error> {
        let Some(since) = self.raised.take() else { return Ok(()) };
        let begin = Instant::now();
        self.cost.raised += begin - since;
        let outcome = self.lever.let_go(self.guard.as_ref(), self.clamp_before);
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

    fn is_at_full_speed(&self) -> Option<bool> {
        let policy = self.policy()?;
        let (now, max) = (policy.hardware_khz.or(policy.current_khz)?, policy.max_khz?);
        Some(now * 100 >= max * FULL_PER_CENT)
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
            not_at_full_speed: 0,
            lead: Duration::ZERO,
            time_in_state: Vec::new(),
            energy_uj: None,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lever, switches, met, missed, not_at_full_speed, .. } = self;
        let share = self.raised.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9) * 100.0;
        write!(
            f,
            "{met} deadlines met, {missed} missed; by {lever}, raised {switches} times, {share:.0} % of the time, \
             {:?} spent in switching; lead {:?}, not at full speed {not_at_full_speed} times",
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

/// Time at each frequency between two looks; what was not visited is left out.
fn spent(before: &Policy, now: &Policy) -> Vec<(u64, Duration)> {
    let earlier =
        |khz: u64| before.time_in_state.iter().find(|(its, _)| *its == khz).map_or(Duration::ZERO, |(_, t)| *t);
    let since = now.time_in_state.iter().map(|(khz, time)| (*khz, time.saturating_sub(earlier(*khz))));
    since.filter(|(_, time)| !time.is_zero()).collect()
}

fn sleep_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}
