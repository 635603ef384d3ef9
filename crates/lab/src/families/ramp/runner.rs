//! The loops of one governor's turn.

use punctual::cpufreq::{Error, Work};
use punctual_linux as linux;
use punctual_record::{Recorder, Usage};

use super::extra::Extra;
use super::facts::Facts;
use super::governed::Governed;
use super::loops::{Loop, Loops, Stamps};
use super::plan::Plan;
use crate::frame::figures::Meter;
use crate::frame::{self, Bench, Failure, Ledger, Shared, Unavailable};
use crate::speed::governor::{give_back, governor_lost};
use crate::speed::{PERFORMANCE, WARM_UP};

/// The looping thread.
pub(super) struct RampBench<'a> {
    plan: &'a Plan,
    governed: Governed,
    ledger: Shared<Ledger>,
    /// The work, after its calibration.
    work: Option<(Work, Loops)>,
    stamps: Vec<Stamps>,
    /// The last batch's results, until it counts.
    last: Option<Batch>,
}

/// The results of one batch beside the durations of its loops.
struct Batch {
    loops: Vec<Loop>,
    transitions: Option<u64>,
    ended_khz: Option<u64>,
    facts: Option<Facts>,
    raised: Vec<String>,
}

impl<'a> RampBench<'a> {
    /// Sets full speed for the calibration of the work, if it can be set.
    pub(super) fn open(plan: &'a Plan, governed: Governed, ledger: Shared<Ledger>) -> Result<Self, frame::Error> {
        let stamps = Vec::with_capacity(plan.asked.loops as usize);
        let mut bench = Self { plan, governed, ledger, work: None, stamps, last: None };
        let offers = |policy: punctual::cpufreq::CpufreqPolicy| policy.governors.iter().any(|its| its == PERFORMANCE);
        if bench.governed.guard.is_some() && bench.governed.policy().is_some_and(offers) {
            bench.governed.set(PERFORMANCE)?;
        }
        Ok(bench)
    }

    /// The loops of the work, calibrated in the first batch.
    fn loops(&mut self) -> Loops {
        let takes = self.plan.asked.work;
        let calibrate = || {
            Work::warm_up(WARM_UP);
            let work = Work::calibrate(takes);
            (work, Loops::new(work, takes))
        };
        self.work.get_or_insert_with(calibrate).1
    }

    /// Sets the governor of the turn.
    fn prepare(&mut self, cell: usize) -> Result<(Option<Facts>, Vec<String>), Error> {
        match (&self.plan.cells[cell].governor, &self.governed.guard) {
            (Some(governor), _) => self.governed.set(governor)?,
            (None, Some(guard)) => guard.rewrite_found_governor()?,
            (None, None) => {}
        }
        let raised = self.governed.raise_threads(self.plan.asked.thread_priority)?;
        let known = self.governed.policy().zip(self.governed.cpu);
        Ok((known.map(|(policy, cpu)| Facts::read(&self.governed.cpufreq, &policy, cpu)), raised))
    }

    /// Another program changed the governor during the turn.
    fn lost(&self, cell: usize) -> Result<(), Failure> {
        let Some((set, guard)) = self.plan.cells[cell].governor.as_deref().zip(self.governed.guard.as_ref()) else {
            return Ok(());
        };
        let Some((policy, found)) = guard.other_governor(set) else { return Ok(()) };
        let label = &self.plan.request.variants[0].label;
        Err(Failure::Lost(vec![governor_lost(label, set, policy, &found)]))
    }
}

impl Bench for RampBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        self.plan.subject(cell).to_owned()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let loops = self.loops();
        let prepared = self.prepare(cell);
        let (facts, raised) = prepared.map_err(|error| Unavailable::from(&error))?;
        std::thread::sleep(self.plan.asked.rest);
        let before = self.governed.policy().and_then(|policy| policy.transitions);
        let meter = Meter::start();
        self.stamps.clear();
        while (self.stamps.len() as u64) < operations && !linux::stop::requested() {
            self.stamps.push(loops.perform());
        }
        let used = meter.stop();
        if (self.stamps.len() as u64) < operations {
            return Err(Failure::Stopped);
        }
        let now = self.governed.policy();
        let after = now.as_ref().and_then(|policy| policy.transitions);
        let done: Vec<_> = self.stamps.iter().map(|its| loops.account(its)).collect();
        done.iter().for_each(|its| into.record(its.ns));
        self.lost(cell)?;
        self.last = Some(Batch {
            loops: done,
            transitions: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            ended_khz: now.and_then(|policy| policy.current_khz),
            facts,
            raised,
        });
        Ok(used)
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Extra) {
        let Some(batch) = self.last.take() else { return };
        extra.rounds.push(batch.loops);
        extra.transitions.push(batch.transitions);
        extra.ended_khz.push(batch.ended_khz);
        extra.raised.extend(batch.raised);
        extra.steps = self.work.map_or(0, |(work, _)| work.steps);
        if let Some(facts) = batch.facts {
            extra.facts = facts;
        }
    }

    fn end(&mut self) {
        give_back(self.governed.guard.take(), &self.ledger);
    }
}
