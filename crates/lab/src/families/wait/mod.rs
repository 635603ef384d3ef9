//! `wait`: how late each way of waiting wakes up, and how much CPU time it uses.
//!
//! The input is a [`Plan`]. The [`Session`] receives a series per method, duration and variant of conditions, or the
//! reason for a missing one. The quantity is `overshoot` for calls that take a duration, `lateness` for those that
//! take a deadline.

mod bench;
pub mod methods;
mod plan;

use std::time::Duration;

use punctual::format_duration;
use punctual_record::experiment::wait;
use punctual_record::{Experiment, Notice, Quantity, Typed};

use crate::frame::error::more_time;
use crate::frame::plan::rough;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::{self, Asked, Bench, Error, Failure, Family, Layout, Measured, Report, Scene, Session, Unavailable};
use bench::WaitBench;
pub use bench::{Cuts, interruptible};
use plan::Cell;
pub use plan::{Plan, Request};

/// The first estimate of a wait's overshoot: default timer slack and a wake-up.
const USUAL_OVERSHOOT_NS: f64 = 60_000.0;
/// The same for busy waiting: some readings of the clock.
const USUAL_SPIN_OVERSHOOT_NS: f64 = 100.0;
/// Longest busy wait under a real-time policy: half of the second after which the watchdog steps in.
const LONGEST_REAL_TIME_SPIN: Duration = Duration::from_millis(500);

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::WAIT;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

/// Runs the plan for the causes of late wake-ups alone. Where the kernel refuses its events, a notice says so.
pub fn causes(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::causes(plan, session)
}

impl Family for Plan {
    type Extra = Cuts;
    type Company = ();

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn asked(&self, cell: usize) -> Asked {
        let method = self.methods[self.cells[cell].method];
        let parameters = self.parameters(&self.cells[cell]);
        Asked {
            subject: method.name.into(),
            about: method.for_record(),
            experiment: Experiment::Wait(Typed::asked(parameters)),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| {
            let burns = self.methods[cell.method].kind.burns();
            let overshoot = if burns { USUAL_SPIN_OVERSHOOT_NS } else { USUAL_OVERSHOOT_NS };
            let (ideal, expected) = (cell.asked_ns() as f64, self.expected_ns(cell) as f64);
            CellCost { ideal_ns: ideal + overshoot, expected_ns: expected + overshoot }
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        self.hz = session.host().hz;
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let burns = self.methods[cell.method].kind.burns();
        let held = burns && self.request.variants[cell.variant].is_real_time() && cell.asked > LONGEST_REAL_TIME_SPIN;
        held.then(|| {
            let asked = format_duration(cell.asked);
            Unavailable::but(
                format!("a busy wait of {asked} under a real-time policy would hold the CPU"),
                format!("ask for {} or less", format_duration(LONGEST_REAL_TIME_SPIN)),
            )
        })
    }

    fn too_short(&self, cell: usize) -> Unavailable {
        let share = self.schedule().share(cell);
        let effective = Duration::from_nanos(self.effective_ns(&self.cells[cell]).unsigned_abs());
        let why = match effective > share {
            true => format!(
                "the call makes {} of it, longer than its share of the time ({})",
                format_duration(effective),
                rough(share)
            ),
            false => format!("the machine left no time for a wait within its share of the time ({})", rough(share)),
        };
        Unavailable::but(why, more_time())
    }

    fn gather(&self, _: &Scene<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn open<'a>(&'a self, (): (), _: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Cuts> + 'a>, Error> {
        Ok(Box::new(WaitBench::open(self)))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Cuts>) -> Report {
        let cell = &self.cells[cell];
        let method = self.methods[cell.method];
        let parameters = self.parameters(cell);
        let metrics = wait::Metrics { effective_ns: Some(self.effective_ns(cell)), ..measured.extra.metrics() };
        let quantity = if method.absolute { Quantity::Lateness } else { Quantity::Overshoot };
        let series = measured.series(measured.tally, quantity, Experiment::Wait(Typed { parameters, metrics }));
        let (subject, count, min_ns) = (method.name.into(), series.summary.negative, series.summary.min.unwrap_or(0));
        // A wait that signals cut short may well end early.
        let notices = if count > 0 && self.interrupt.is_none() {
            vec![Notice::Early { subject, count, min_ns }]
        } else {
            Vec::new()
        };
        Report { notices, ..Report::with_series(vec![series]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Amount;
    use crate::frame::Request as Frame;
    use crate::frame::tests::made_up_report;

    #[test]
    fn a_series_says_what_the_call_makes_of_the_wait() {
        let methods = ["poll", "clock_nanosleep_abs"].map(|name| methods::find(name).unwrap()).to_vec();
        let frame = Frame::as_found(Amount::Time(Duration::from_secs(1)), 3);
        let request = Request {
            methods,
            durations: vec![Duration::from_micros(100)],
            companions: Vec::new(),
            interrupt: None,
            frame,
        };
        let plan = Plan::new(request).unwrap();
        let extras = [Cuts::default(), Cuts::default()];
        let report = made_up_report(&plan, 0, &[-5, 900_000], &extras);
        let series = &report.series[0];
        let typed = series.experiment.wait().unwrap();
        assert_eq!((typed.parameters.asked_ns, typed.metrics.effective_ns), (100_000, Some(1_000_000)));
        assert_eq!((series.subject.as_str(), series.quantity), ("poll", Quantity::Overshoot));
        assert_eq!(series.about.kind.as_deref(), Some("poll"));
        assert_eq!(series.about.code.as_deref(), Some("poll(NULL, 0, milliseconds);"));
        assert_eq!(report.notices, [Notice::Early { subject: "poll".into(), count: 1, min_ns: -5 }]);
        let report = made_up_report(&plan, 1, &[1], &extras);
        assert_eq!((report.series[0].quantity, report.notices.len()), (Quantity::Lateness, 0));
    }
}
