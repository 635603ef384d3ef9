//! `ramp`: how a fixed piece of work speeds up under each governor.
//!
//! Each governor has one turn per round. It is set, the CPU rests, and a thread runs N loops as fast as it can. The
//! figures are a series per governor with every loop in order, and the time to full speed. If it was not reached,
//! there is a reason. Without cpufreq the loops are still measured: they show the time taken by the hypervisor,
//! throttling and other programs.

mod bench;
mod governed;
mod plan;

use std::time::Duration;

use punctual::cpufreq::Cpufreq;
use punctual_record::experiment::ramp;
use punctual_record::statistics::lower_median;
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesTally, Typed};

use crate::frame::schedule::Schedule;
use crate::frame::{self, Asked, Bench, Error, Failure, Family, Layout, Measured, Report, Scene, Session, Unavailable};
use crate::speed::arrival;
use bench::{Extra, RampBench, own_spread};
use governed::Governed;
pub use governed::{AS_FOUND, Governors};
pub use plan::{LONGEST_REAL_TIME, Plan, Request};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::RAMP;
/// The loops that show what a rest costs: the median of three outlives an interruption of one.
const FIRST: usize = 3;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    type Company = Governed;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, vec![0; self.cells.len()])
    }

    fn asked(&self, cell: usize) -> Asked {
        let subject = self.subject(cell).to_owned();
        Asked { subject, about: About::default(), experiment: Experiment::Ramp(Typed::asked(self.parameters())) }
    }

    fn schedule(&self) -> Schedule {
        let each = self.asked.rest / self.asked.loops + self.asked.work;
        Schedule::fixed(self.request.rounds, self.asked.loops, each, self.cells.len(), self.at_most)
    }

    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        let asked = (&self.asked.governors, self.request.require);
        let (governed, cells, notices) = Governed::take_over(Cpufreq::system(), self.cpu, asked)?;
        notices.into_iter().for_each(|notice| session.notice(notice));
        *self.waiting.open() = Some(governed);
        self.cells = cells;
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        self.cells[cell].failure.clone()
    }

    fn gather(&self, _: &Scene<'_>) -> Result<Governed, Failure> {
        let nothing = || Governed { cpufreq: Cpufreq::system(), cpu: self.cpu, guard: None };
        Ok(self.waiting.take().unwrap_or_else(nothing))
    }

    fn open<'a>(&'a self, governed: Governed, scene: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Extra> + 'a>, Error> {
        Ok(Box::new(RampBench::open(self, governed, scene.ledger.clone())?))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment =
            Experiment::Ramp(Typed { parameters: self.parameters(), metrics: self.metrics(cell, measured) });
        let mut series = measured.series(measured.tally, Quantity::Loop, experiment);
        series.samples = Some(measured.extra.durations().flatten().collect());
        let mut report = Report::with_series(vec![series]);
        report.series.extend(self.first_loops(measured));
        report
    }
}

impl Plan {
    fn parameters(&self) -> ramp::Parameters {
        let ns = |duration: Duration| duration.as_nanos() as i64;
        ramp::Parameters { loops: self.asked.loops, work_ns: ns(self.asked.work), rest_ns: ns(self.asked.rest) }
    }

    /// The first loops of each round, which a test of the rounds compares with all of them. `None`: too few loops.
    fn first_loops(&self, measured: &Measured<'_, Extra>) -> Option<Series> {
        if (self.asked.loops as usize) < 2 * FIRST {
            return None;
        }
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, durations) in measured.tally.rounds().iter().zip(measured.extra.durations()) {
            tally.add_samples((round.round, round.started_ns), &mut recorder, durations.into_iter().take(FIRST));
        }
        let experiment = Experiment::Ramp(Typed::asked(self.parameters()));
        Some(measured.series(&tally, Quantity::FirstLoops, experiment))
    }

    /// Further notices about a governor's loops.
    fn metrics(&self, cell: usize, measured: &Measured<'_, Extra>) -> ramp::Metrics {
        let (extra, extras) = (measured.extra, measured.extras);
        let best = extras.iter().flat_map(|extra| extra.rounds.iter().flatten()).map(|one_loop| one_loop.ns).min();
        let settled = extras.iter().filter_map(Extra::settled_ns).min();
        let arrived = |round: Vec<i64>| arrival(&round, settled?, false).map(|at| round[..at].iter().sum());
        let arrivals: Vec<i64> = extra.durations().filter_map(arrived).collect();
        let reached = arrivals.len() * 2 > extra.rounds.len();
        let transitions: Option<Vec<u64>> = extra.transitions.iter().copied().collect();
        let transitions = transitions.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<u64>());
        let ended: Vec<i64> = extra.ended_khz.iter().flatten().map(|khz| *khz as i64).collect();
        let (ended_khz, max_khz) = (lower_median(&ended), extra.facts.max_khz.map(|khz| khz as i64));
        let slow = !reached || ended_khz.zip(max_khz).is_some_and(|(ended, max)| ended < max);
        let mut raised: Vec<&str> = extras.iter().flat_map(|extra| extra.raised.iter().map(String::as_str)).collect();
        raised.sort_unstable();
        raised.dedup();
        let why = || {
            let governor = self.cells[cell].governor.as_deref();
            extra.facts.why_slow(governor, self.priority(measured.refused), transitions, !raised.is_empty())
        };
        let (interrupted_share, interruption_ns) = extra.interruptions();
        ramp::Metrics {
            cpu: self.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            steps: Some(extra.steps as i64),
            best_ns: best,
            first_ns: extra.middle_of(|round| round.first().copied()),
            final_ns: extra.middle_of(|round| round.last().copied()),
            rounds_at_full_speed: Some(arrivals.len() as u64),
            to_full_speed_ns: lower_median(&arrivals).filter(|_| reached),
            transitions,
            ended_khz,
            driver: extra.facts.driver.clone(),
            max_khz,
            raised: (!raised.is_empty()).then(|| raised.join(", ")),
            why: if slow { why() } else { None },
            interrupted_share,
            interruption_ns,
            own_spread: own_spread(&extra.rounds),
        }
    }

    /// The thread's real-time priority, if it was granted.
    fn priority(&self, refused: &[punctual::Refused]) -> Option<u32> {
        if refused.iter().any(|refused| refused.condition == punctual::Condition::POLICY) {
            return None;
        }
        match self.asked.thread.policy? {
            punctual::Policy::Fifo(priority) | punctual::Policy::RoundRobin(priority) => Some(u32::from(priority)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bench::Loop;
    use super::governed::Cell;
    use super::*;
    use crate::frame::tests::made_up_report;
    use crate::speed::Thread;

    /// A plan for two governors, and the results of each: the loops of one round.
    fn plan() -> Plan {
        let request = Request {
            governors: Governors::All,
            loops: 4,
            work: Duration::from_micros(100),
            rounds: 1,
            rest: Duration::from_millis(1),
            thread: Thread { cpu: Some(0), policy: Some(punctual::Policy::Fifo(10)), require: false },
            thread_priority: None,
        };
        let cell = |name: &str| Cell { governor: Some(name.into()), failure: None };
        Plan { cells: vec![cell("performance"), cell("powersave")], ..Plan::new(request).unwrap() }
    }

    fn extra(loops: [i64; 4], governor_raised: &str) -> Extra {
        let round = loops.map(|ns| Loop { ns, taken_ns: Some(ns % 10) }).to_vec();
        let raised = vec![governor_raised.to_owned()];
        Extra {
            rounds: vec![round],
            transitions: vec![Some(3)],
            ended_khz: vec![Some(800_000)],
            steps: 9,
            raised,
            ..Extra::default()
        }
    }

    #[test]
    fn a_series_says_how_fast_full_speed_was_reached() {
        let extras = [extra([300, 100, 100, 100], "sugov:0"), extra([300, 300, 304, 300], "kworker/0:0")];
        let fast = made_up_report(&plan(), 0, &[1], &extras);
        let series = &fast.series[0];
        assert_eq!((series.subject.as_str(), series.conditions.as_str()), ("performance", "SCHED_FIFO 10"));
        assert_eq!(series.samples.as_deref(), Some(&[300, 100, 100, 100][..]));
        let typed = series.experiment.ramp().unwrap();
        assert_eq!(
            (typed.parameters.loops, typed.parameters.work_ns, typed.parameters.rest_ns),
            (4, 100_000, 1_000_000)
        );
        let metrics = &typed.metrics;
        assert_eq!((metrics.cpu, metrics.steps, metrics.best_ns), (Some(0), Some(9), Some(100)));
        assert_eq!((metrics.first_ns, metrics.final_ns), (Some(300), Some(100)));
        assert_eq!((metrics.rounds_at_full_speed, metrics.to_full_speed_ns), (Some(1), Some(300)));
        assert_eq!((metrics.transitions, metrics.ended_khz), (Some(3), Some(800_000)));
        assert_eq!(metrics.raised.as_deref(), Some("kworker/0:0, sugov:0"), "of the whole run");
        let slow = made_up_report(&plan(), 1, &[1], &extras);
        let metrics = &slow.series[0].experiment.ramp().unwrap().metrics;
        assert_eq!(
            (metrics.best_ns, metrics.rounds_at_full_speed, metrics.to_full_speed_ns),
            (Some(100), Some(0), None)
        );
        assert_eq!(metrics.why.as_deref(), Some("it keeps the lowest frequency, by design"));
        assert_eq!((metrics.interrupted_share, metrics.interruption_ns), (Some(0.25), Some(4)));
    }
}
