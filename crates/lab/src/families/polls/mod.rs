//! `polls`: how often to poll before a yield, by the latency of a message and the CPU share of others.
//!
//! The input is a [`Plan`]. A receiver on one CPU waits for messages that a sender process on another sends at random
//! times. It polls N times, yields, and polls again; or it never yields, or blocks, or backs off. Its CPU has a busy
//! program or none. The [`Session`] receives for each way a series `one_way` and a series `round_trip`. If the busy
//! program runs, they include the shares of the CPU while no message comes.

mod bench;
mod mailbox;
pub mod plan;

use punctual::conditions::Conditions;
use punctual_linux::child::Child;
use punctual_record::experiment::polls::{self, Load, SenderPlace};
use punctual_record::experiment::yielding::CompetitorKind;
use punctual_record::{About, Ask, Experiment, Hint, Quantity, Typed};

use crate::crowd::{Crowd, Restraint, Shares, child_under};
use crate::frame::error::more_time;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::{
    self, CellId, Error, Failure, Family, Layout, Measured, OpenBench, Place, Report, Scene, Session, Unavailable,
    names,
};
use bench::{Extra, Others, PollBench};
use mailbox::Mailbox;
use plan::Cell;
pub use plan::{MOST_POLLS, Plan, ReceiveMethod, Request, subjects};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::POLLS;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    type Company = Others;
    const REASON_NAMES: &'static [&'static str] = names!(polls::Parameters: load, sender, polls);
    const REASON_NAMES_CONDITIONS: bool = true;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let how = self.cells[cell].how;
        CellId {
            subject: how.subject(&self.methods).into(),
            about: About { call: call(self, how).map(str::to_owned), ..About::default() },
            experiment: Experiment::Polls(Typed::asked(parameters(self, &self.cells[cell]))),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| {
            let (least, most) = cell.pause();
            let ns = ((least + most) / 2 + cell.silence()).as_nanos() as f64;
            CellCost::exactly(ns)
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn place(&self) -> Place {
        // The sender, on another CPU, has no real-time policy: a supervisor that sleeps there does not disturb it.
        Place::on_cpu(Some(self.cpu), self.request.is_real_time())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let polls = matches!(cell.how, ReceiveMethod::Spin | ReceiveMethod::Yield { .. });
        (polls && self.shares_cpu() && self.request.variants[cell.variant].is_real_time()).then(|| {
            Unavailable::but(
                "a receiver that polls under a real-time policy keeps a sender on its CPU from sending",
                Hint::from(Ask::SenderCpu).and(", or leave out the policy"),
            )
        })
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time did not pay for one message", more_time())
    }

    fn gather(&self, _: &Scene<'_>) -> Result<Others, Failure> {
        let pinned = |cpu| Conditions::new().cpu(cpu);
        let (mailbox, sender) = send_from(self, &pinned(self.sender_cpu))?;
        let busy = Crowd::gather(CompetitorKind::Process, 1, &pinned(self.cpu), Restraint::None);
        Ok(Others { mailbox, sender, busy })
    }

    fn open<'a>(&'a self, others: Others, _: &Scene<'a>) -> OpenBench<'a, Extra> {
        Ok(Box::new(PollBench::open(self, others)))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment =
            |metrics| Experiment::Polls(Typed { parameters: parameters(self, &self.cells[cell]), metrics });
        let extra = measured.extra;
        let (competitor_cpu_share, own_cpu_share) = (extra.silence.competitors(), extra.silence.own());
        let metrics = polls::Metrics { competitor_cpu_share, own_cpu_share };
        let mut one_way = measured.series(measured.tally, Quantity::OneWay, experiment(metrics));
        Shares::enter(&extra.shares, 2, &mut one_way);
        let mut series = vec![one_way];
        if extra.round_trips.count() > 0 {
            series.push(measured.series(
                &extra.round_trips,
                Quantity::RoundTrip,
                experiment(polls::Metrics::default()),
            ));
        }
        Report::with_series(series)
    }
}

/// The sender, in a process of its own.
fn send_from(plan: &Plan, conditions: &Conditions) -> Result<(Mailbox, Child), Failure> {
    let failed = |error: punctual_linux::Error| {
        Unavailable::but(format!("starting the sender: {error}"), "raise ulimit -u or the cgroup's pids.max")
    };
    let mailbox = Mailbox::new().map_err(failed)?;
    let (theirs, own_cpu) = (mailbox.clone(), !plan.shares_cpu());
    let parent = std::process::id();
    let lives = move || std::os::unix::process::parent_id() == parent && !punctual_linux::child::deadline_passed();
    let sender = child_under("punctual-send", conditions, move || theirs.send_all(own_cpu, lives));
    Ok((mailbox, sender.map_err(failed)??))
}

/// The call it makes between polls.
fn call(plan: &Plan, how: ReceiveMethod) -> Option<&'static str> {
    match how {
        ReceiveMethod::Yield { method, .. } => Some(plan.methods[method].call),
        ReceiveMethod::Spin | ReceiveMethod::Block | ReceiveMethod::Backoff => None,
    }
}

fn parameters(plan: &Plan, cell: &Cell) -> polls::Parameters {
    polls::Parameters {
        load: if cell.busy { Load::Busy } else { Load::Idle },
        sender: if plan.shares_cpu() { SenderPlace::SameCpu } else { SenderPlace::OtherCpu },
        polls: match cell.how {
            ReceiveMethod::Spin => Some(0),
            ReceiveMethod::Yield { polls, .. } => Some(polls),
            ReceiveMethod::Block | ReceiveMethod::Backoff => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frame::Amount;
    use crate::frame::Request as Frame;
    use crate::frame::tests::{made_up_report, made_up_tally};

    #[test]
    fn a_series_says_how_often_was_polled_and_who_had_the_cpu() {
        let frame = Frame::as_found(Amount::Time(Duration::from_secs(1)), 3);
        let plan = Plan::new(Request { methods: Vec::new(), polls: vec![0], sender_cpu: None, frame }).unwrap();
        let silence = Shares { elapsed_ns: 200, own_ns: 20, competitors_ns: 150 };
        let with_silence = Extra { silence, round_trips: made_up_tally(&[5]), ..Extra::default() };
        let extras: Vec<Extra> = plan.cells.iter().map(|_| with_silence.clone()).collect();
        let busy = plan.cells.iter().position(|cell| cell.busy).unwrap();
        let report = made_up_report(&plan, busy, &[3], &extras);
        let typed = report.series[0].experiment.polls().unwrap();
        assert_eq!((typed.parameters.load, typed.parameters.polls), (Load::Busy, Some(0)));
        assert_eq!((typed.metrics.competitor_cpu_share, typed.metrics.own_cpu_share), (Some(0.75), Some(0.1)));
        assert_eq!((report.series[1].quantity, report.series[1].summary.count), (Quantity::RoundTrip, 1));
        let blocks = made_up_report(&plan, busy + 1, &[3], &extras);
        assert_eq!(blocks.series[0].experiment.polls().unwrap().parameters.polls, None);
        assert_eq!(blocks.series[0].subject, "futex_wait");
    }
}
