//! `boost`: the benefit of a boost for a periodic task. It compares the governor as found, a boost around each
//! activation, and full speed all the time.
//!
//! Each of the three has one turn per round: the CPU rests, and then a thread is activated N times. Each time it does a fixed
//! piece of work, which has a deadline. The figures are the response times (from activation to the end of the work), the
//! deadlines met, and the cost: time at each frequency, energy if it is counted, CPU time, and writes.

mod bench;
mod plan;

use std::time::Duration;

use punctual::cpufreq::GovernorGuard;
use punctual_record::experiment::boost;
use punctual_record::{About, Experiment, Notice, Quantity, Typed};

use crate::frame::schedule::Schedule;
use crate::frame::{self, Asked, Bench, Error, Failure, Family, Layout, Measured, Report, Scene, Session, Unavailable};
use bench::{BoostBench, Extra, Machine};
use plan::Subject;
pub use plan::{Plan, Request};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::BOOST;

/// The subjects of every run.
pub fn subjects() -> impl Iterator<Item = &'static str> {
    Subject::ALL.into_iter().map(Subject::name)
}

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

/// A cell for each subject.
impl Family for Plan {
    type Extra = Extra;
    /// Full speed, until the work is calibrated.
    type Company = Option<GovernorGuard>;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, [0; Subject::ALL.len()])
    }

    fn asked(&self, cell: usize) -> Asked {
        let experiment = Experiment::Boost(Typed::asked(self.parameters()));
        Asked { subject: Subject::ALL[cell].name().into(), about: About::default(), experiment }
    }

    fn schedule(&self) -> Schedule {
        let each = self.asked.rest / self.asked.periods + self.asked.period;
        Schedule::fixed(self.request.rounds, self.asked.periods, each, self.cells(), self.at_most)
    }

    /// As found: the guard first restores whatever an earlier program has left behind.
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        match Machine::new(self.cpu).performance() {
            Ok((guard, found)) => {
                for text in guard.replayed() {
                    session.notice(Notice::Other { text: text.clone() });
                }
                (self.found.governor, self.found.max_khz) = (found.governor, found.max_khz);
                *self.found.full.open() = Some(guard);
            }
            Err(error) if self.request.require => return Err(error.into()),
            Err(error) => self.found.failure = Some(Unavailable::from(&error)),
        }
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        self.found.failure.clone().filter(|_| Subject::ALL[cell] != Subject::AsFound)
    }

    fn gather(&self, _: &Scene<'_>) -> Result<Self::Company, Failure> {
        Ok(self.found.full.take())
    }

    fn open<'a>(&'a self, full: Self::Company, scene: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Extra> + 'a>, Error> {
        Ok(Box::new(BoostBench::open(self, full, scene.ledger.clone())))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let metrics = boost::Metrics {
            cpu: self.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            governor: self.found.governor.clone().filter(|_| Subject::ALL[cell] != Subject::Performance),
            max_khz: self.found.max_khz.map(|khz| khz as i64),
            ..measured.extra.metrics()
        };
        let experiment = Experiment::Boost(Typed { parameters: self.parameters(), metrics });
        let mut series = measured.series(measured.tally, Quantity::Response, experiment);
        series.samples = Some(measured.extra.responses.clone());
        Report::with_series(vec![series])
    }
}

impl Plan {
    fn parameters(&self) -> boost::Parameters {
        let ns = |duration: Duration| duration.as_nanos() as i64;
        let (period_ns, work_ns, deadline_ns) = (ns(self.asked.period), ns(self.asked.work), ns(self.deadline));
        boost::Parameters { period_ns, work_ns, deadline_ns, periods: self.asked.periods }
    }
}

#[cfg(test)]
mod tests {
    use super::bench::Trial;
    use super::plan::Found;
    use super::*;
    use crate::frame::tests::made_up_report;
    use crate::speed::Thread;

    #[test]
    fn a_series_says_how_many_deadlines_were_met() {
        let ms = Duration::from_millis;
        let request = Request {
            period: ms(10),
            work: ms(1),
            deadline: None,
            periods: 2,
            rounds: 1,
            rest: ms(1),
            lever: None,
            thread: Thread { cpu: Some(0), ..Thread::default() },
        };
        let found = Found { governor: Some("powersave".into()), max_khz: Some(3_000_000), ..Found::default() };
        let plan = Plan { found, ..Plan::new(request).unwrap() };
        let mut extra = Extra::default();
        extra.add(&[900, 2_000], Trial { met: 1, ..Trial::default() });
        let extras = [extra, Extra::default(), Extra::default()];
        let report = made_up_report(&plan, 0, &[900, 2_000], &extras);
        let series = &report.series[0];
        assert_eq!((series.subject.as_str(), series.samples.as_deref()), ("as found", Some(&[900, 2_000][..])));
        let typed = series.experiment.boost().unwrap();
        assert_eq!((typed.parameters.period_ns, typed.parameters.work_ns), (10_000_000, 1_000_000));
        assert_eq!((typed.parameters.deadline_ns, typed.parameters.periods), (1_500_000, 2));
        let metrics = &typed.metrics;
        assert_eq!((metrics.met, metrics.missed, metrics.cpu), (Some(1), Some(1), Some(0)));
        assert_eq!((metrics.governor.as_deref(), metrics.max_khz), (Some("powersave"), Some(3_000_000)));
        let full = made_up_report(&plan, 2, &[900], &extras);
        assert_eq!(full.series[0].experiment.boost().unwrap().metrics.governor, None, "another was set");
    }
}
