//! The periodic thread, its activations under one subject, and what they cost.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual::cpufreq::{Boost, Cost, Cpufreq, CpufreqPolicy, Energy, Error, GovernorGuard, Work};
use punctual_linux as linux;
use punctual_record::experiment::boost::Metrics;
use punctual_record::statistics::lower_median;
use punctual_record::{Recorder, Usage};

use super::plan::{Plan, Subject};
use crate::frame::figures::Meter;
use crate::frame::settings::not_restored;
use crate::frame::{Bench, Failure, Ledger, Shared, Unavailable};
use crate::speed::{PATIENCE, PERFORMANCE, WARM_UP, give_back, governor_lost};

/// The policy of the periodic thread's CPU.
#[derive(Debug)]
pub(super) struct Machine {
    cpufreq: Cpufreq,
    cpu: usize,
}

impl Machine {
    /// The policy of this CPU, or of the first one.
    pub(super) fn new(cpu: Option<usize>) -> Self {
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
        Self { plan, machine: Machine::new(plan.cpu), ledger, full, work: None, responses, last: None }
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

/// The results of one subject's turns, beside its samples.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Every response time in ns, in order.
    pub(super) responses: Vec<i64>,
    /// Steps of work in an activation.
    pub(super) steps: u64,
    met: u64,
    costs: Vec<Cost>,
    time_in_state: BTreeMap<u64, Duration>,
    energy: Option<(u64, Duration)>,
}

/// The resources that a trial used.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Number of deadlines met.
    pub(super) met: u64,
    /// Time at each frequency.
    pub(super) time_in_state: Vec<(u64, Duration)>,
    /// Energy, in µJ, and the time it was counted for.
    pub(super) energy: Option<(u64, Duration)>,
    /// A boost's own statistics.
    pub(super) cost: Option<Cost>,
}

impl Extra {
    pub(super) fn add(&mut self, responses: &[i64], trial: Trial) {
        self.responses.extend_from_slice(responses);
        self.met += trial.met;
        for (khz, time) in trial.time_in_state {
            *self.time_in_state.entry(khz).or_default() += time;
        }
        if let Some((uj, time)) = trial.energy {
            let (so_far, counted) = self.energy.unwrap_or_default();
            self.energy = Some((so_far + uj, counted + time));
        }
        self.costs.extend(trial.cost);
    }

    /// The metrics of the record.
    pub(super) fn metrics(&self) -> Metrics {
        let seconds: f64 = self.time_in_state.values().map(Duration::as_secs_f64).sum();
        let share = |time: &Duration| time.as_secs_f64() / seconds;
        let mean =
            || self.time_in_state.iter().map(|(khz, time)| *khz as f64 * share(time)).sum::<f64>().round() as i64;
        let residency = || self.time_in_state.iter().map(|(khz, time)| (*khz, share(time))).collect();
        let energy = self.energy.filter(|(_, time)| !time.is_zero());
        Metrics {
            steps: Some(self.steps as i64),
            met: Some(self.met),
            missed: Some(self.responses.len() as u64 - self.met),
            mean_khz: (seconds > 0.0).then(mean),
            residency: (seconds > 0.0).then(residency),
            power_mw: energy.map(|(uj, time)| (uj as f64 / 1e3 / time.as_secs_f64()).round() as i64),
            ..self.boosted()
        }
    }

    fn boosted(&self) -> Metrics {
        let Some(last) = self.costs.last() else { return Metrics::default() };
        let sum = |pick: fn(&Cost) -> u64| self.costs.iter().map(pick).sum::<u64>();
        let time = |pick: fn(&Cost) -> Duration| self.costs.iter().map(pick).sum::<Duration>();
        let switches = sum(|cost| cost.switches);
        let leads: Vec<i64> = self.costs.iter().map(|cost| cost.lead.as_nanos() as i64).collect();
        let elapsed = time(|cost| cost.elapsed).as_secs_f64().max(1e-9);
        Metrics {
            lever: Some(last.lever.to_string()),
            lead_ns: Some(lower_median(&leads).unwrap_or(0)),
            switches: Some(switches),
            switching_ns: Some((time(|cost| cost.switching).as_nanos() / u128::from(switches.max(1))) as i64),
            raised_share: Some(time(|cost| cost.raised).as_secs_f64() / elapsed),
            learned: Some(sum(|cost| cost.learned)),
            learning_share: Some(time(|cost| cost.learning).as_secs_f64() / elapsed),
            not_at_full_speed: Some(sum(|cost| cost.not_at_full_speed)),
            full_khz: last.full_khz.map(|khz| khz as i64),
            ..Metrics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn turns_add_up() {
        let mut extra = Extra::default();
        let trial = |slow: u32, fast: u32| Trial {
            met: 1,
            time_in_state: vec![(1_000_000, slow * MS), (3_000_000, fast * MS)],
            energy: Some((500_000, 100 * MS)),
            cost: None,
        };
        extra.add(&[5, 6], trial(100, 0));
        extra.add(&[7], trial(50, 50));
        let metrics = extra.metrics();
        assert_eq!((metrics.met, metrics.missed), (Some(2), Some(1)));
        assert_eq!(metrics.mean_khz, Some(1_500_000));
        assert_eq!(metrics.residency.unwrap()[&3_000_000], 0.25);
        assert_eq!(metrics.power_mw, Some(5_000));
        assert_eq!(metrics.lever, None);
    }

    #[test]
    fn what_the_kernel_does_not_count_is_absent() {
        let mut extra = Extra::default();
        extra.add(&[5], Trial::default());
        assert_eq!(extra.metrics(), Metrics { steps: Some(0), met: Some(0), missed: Some(1), ..Metrics::default() });
    }
}
