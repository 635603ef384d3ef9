//! The periodic thread.

use std::hint::black_box;
use std::time::Instant;

use punctual::cpufreq::{Boost, Cpufreq, CpufreqPolicy, Energy, Error, GovernorGuard, Work};
use punctual_linux as linux;
use punctual_record::{Recorder, Usage};

use super::plan::Plan;
use super::subject::Subject;
use super::tally::{Extra, Trial};
use crate::frame::figures::Meter;
use crate::frame::settings::not_restored;
use crate::frame::{Bench, Failure, Ledger, Shared, Unavailable};
use crate::speed::governor::{PATIENCE, give_back, governor_lost};
use crate::speed::{PERFORMANCE, WARM_UP};

/// The policy of the periodic thread's CPU.
#[derive(Debug)]
pub(super) struct Machine {
    cpufreq: Cpufreq,
    cpu: usize,
}

impl Machine {
    /// Of this CPU.
    pub(super) fn of(cpu: Option<usize>) -> Self {
        Self { cpufreq: Cpufreq::system(), cpu: cpu.unwrap_or(0) }
    }

    fn policy(&self) -> Result<CpufreqPolicy, Error> {
        self.cpufreq.policies_of(&[self.cpu])?.into_iter().next().ok_or(Error::NoSuchCpu { cpu: self.cpu })
    }

    /// Full speed, and the policy as it was found.
    pub(super) fn performance(&self) -> Result<(GovernorGuard, CpufreqPolicy), Error> {
        let mut guard = self.cpufreq.guard(&[self.cpu], PATIENCE)?;
        let found = self.policy()?;
        guard.set_governor(PERFORMANCE)?;
        Ok((guard, found))
    }
}

/// The periodic thread.
pub(super) struct BoostBench<'a> {
    plan: &'a Plan,
    machine: Machine,
    ledger: Shared<Ledger>,
    full: Option<GovernorGuard>,
    /// The work, after its calibration.
    work: Option<Work>,
    responses: Vec<i64>,
    /// The last batch's results, until it counts.
    last: Option<Trial>,
}

/// A policy with another governor than the turn's own, at its end.
type Others = Option<(usize, String)>;

impl<'a> BoostBench<'a> {
    pub(super) fn open(plan: &'a Plan, full: Option<GovernorGuard>, ledger: Shared<Ledger>) -> Self {
        let responses = Vec::with_capacity(plan.asked.periods as usize);
        Self { plan, machine: Machine::of(plan.cpu), ledger, full, work: None, responses, last: None }
    }

    /// The work, calibrated in the first turn at full speed.
    fn work(&mut self) -> Work {
        if let Some(work) = self.work {
            return work;
        }
        Work::warm_up(WARM_UP);
        let work = *self.work.insert(Work::calibrate(self.plan.asked.work));
        give_back(self.full.take(), &self.ledger);
        work
    }

    /// Sets what the subject needs, lets the CPU rest, runs the activations, and restores the settings.
    fn trial(&mut self, subject: Subject, work: Work) -> Result<(Trial, Usage, Others), Error> {
        let machine = &self.machine;
        let guard = match subject {
            Subject::Performance => Some(machine.performance()?.0),
            _ => None,
        };
        let mut boost = match subject {
            Subject::Boost => Some(Boost::new(&machine.cpufreq, machine.cpu, self.plan.asked.lever, PATIENCE)?),
            _ => None,
        };
        std::thread::sleep(self.plan.asked.rest);
        let before = machine.policy().ok();
        let (energy, since) = (machine.cpufreq.energy(), Instant::now());
        let meter = Meter::start();
        let outcome = activations(self.plan, boost.as_mut(), work, &mut self.responses);
        let used = meter.stop();
        let counted = since.elapsed();
        let energy = energy.as_ref().and_then(Energy::since_uj).map(|uj| (uj, counted));
        let states =
            |before: &CpufreqPolicy| machine.policy().map(|now| now.time_in_state_since(before)).unwrap_or_default();
        let time_in_state = before.as_ref().map(states).unwrap_or_default();
        let cost = boost.as_ref().map(Boost::cost);
        for left in boost.map(Boost::restore).unwrap_or_default() {
            self.ledger.open().notice(not_restored(&left));
        }
        let others = guard.as_ref().and_then(|guard| guard.other_governor(PERFORMANCE));
        give_back(guard, &self.ledger);
        Ok((Trial { met: outcome?, time_in_state, energy, cost }, used, others))
    }
}

impl Bench for BoostBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        Subject::ALL[cell].name().to_owned()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let work = self.work();
        self.responses.clear();
        let trial = self.trial(Subject::ALL[cell], work);
        let (trial, used, others) = trial.map_err(|error| Unavailable::from(&error))?;
        if (self.responses.len() as u64) < operations {
            return Err(Failure::Stopped);
        }
        self.responses.iter().for_each(|&ns| into.record(ns));
        if let Some((policy, found)) = others {
            let label = &self.plan.request.variants[0].label;
            return Err(Failure::Lost(vec![governor_lost(label, PERFORMANCE, policy, &found)]));
        }
        self.last = Some(trial);
        Ok(used)
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Extra) {
        if let Some(trial) = self.last.take() {
            extra.steps = self.work.map_or(0, |work| work.steps);
            extra.add(&self.responses, trial);
        }
    }

    fn end(&mut self) {
        give_back(self.full.take(), &self.ledger);
    }
}

/// Runs the activations of a turn, and returns the number of deadlines met.
fn activations(plan: &Plan, mut boost: Option<&mut Boost>, work: Work, responses: &mut Vec<i64>) -> Result<u64, Error> {
    let deadline = plan.deadline.as_nanos() as i64;
    let mut at = Instant::now() + plan.asked.period;
    let mut met = 0;
    while responses.len() < plan.asked.periods as usize && !linux::stop::requested() {
        let activation = match &mut boost {
            Some(boost) => Some(boost.wait_until(at)?),
            None => {
                sleep_until(at);
                None
            }
        };
        black_box(work.perform(black_box(responses.len() as u64)));
        let response = at.elapsed().as_nanos() as i64;
        if let (Some(boost), Some(activation)) = (&mut boost, activation) {
            boost.done(activation, at + plan.deadline)?;
        }
        responses.push(response);
        met += u64::from(response <= deadline);
        at += plan.asked.period;
    }
    Ok(met)
}

fn sleep_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}
