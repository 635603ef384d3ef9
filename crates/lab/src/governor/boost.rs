//! What a boost is worth: a periodic task as the machine is, with its speed raised around each activation, and at full speed all the time.
//!
//! Per round each of the three has its turn: the CPU rests, and a thread is activated so many times, does a fixed piece of work each time, and
//! has a deadline for it. The figures are the response times (from activation to the work's end), the deadlines met, and what that cost:
//! time at each frequency, energy where it is counted, CPU time, writes.

mod plan;
mod runner;
mod tally;

use std::collections::BTreeMap;

use punctual_record::{Param, Quantity, SeriesId};

use super::Error;
use super::frame::{self, Findings};
use crate::Session;
pub use plan::{Plan, Wanted};
use tally::Cell;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "boost";

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Whatever governor is set.
    AsFound,
    /// The same, raised around each activation.
    Boost,
    /// The governor `performance`.
    Performance,
}

impl Subject {
    const ALL: [Self; 3] = [Self::AsFound, Self::Boost, Self::Performance];

    const fn name(self) -> &'static str {
        match self {
            Self::AsFound => "as found",
            Self::Boost => "boost",
            Self::Performance => "performance",
        }
    }
}

/// What the run brought.
#[derive(Debug, Default)]
struct Figures {
    cells: Vec<Cell>,
    steps: u64,
    governor: Option<String>,
    max_khz: Option<u64>,
}

type Ledger = frame::Ledger<Figures>;

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let thread = plan.thread.clone();
    let findings = frame::run(&thread, plan.at_most, session, {
        let plan = plan.clone();
        move |stage, ledger: &Ledger| runner::perform(&plan, ledger, stage)
    })?;
    for cell in &findings.figures.cells {
        report(&plan, &findings, cell, session);
    }
    findings.met()
}

fn report(plan: &Plan, findings: &Findings<Figures>, cell: &Cell, session: &mut Session<'_>) {
    let subject = cell.subject.name();
    if let Some((why, remedy)) = &cell.failure {
        session.add_not_measured(frame::not_measured(EXPERIMENT, subject, why.clone(), Some(remedy.clone())));
    }
    if cell.responses.is_empty() {
        return;
    }
    let figures = &findings.figures;
    let mut parameters = BTreeMap::from([
        ("period_ns".to_owned(), Param::Int(plan.period.as_nanos() as i64)),
        ("work_ns".to_owned(), Param::Int(plan.work.as_nanos() as i64)),
        ("deadline_ns".to_owned(), Param::Int(plan.deadline.as_nanos() as i64)),
        ("periods".to_owned(), Param::Int(i64::from(plan.periods))),
        ("steps".to_owned(), Param::Int(figures.steps as i64)),
    ]);
    let governor = if cell.subject == Subject::Performance { None } else { figures.governor.clone() };
    parameters.extend(governor.map(|name| ("governor".to_owned(), Param::Text(name))));
    parameters.extend(findings.cpu.map(|cpu| ("cpu".to_owned(), Param::Int(cpu as i64))));
    parameters.extend(figures.max_khz.map(|khz| ("max_khz".to_owned(), Param::Int(khz as i64))));
    let id = SeriesId {
        experiment: EXPERIMENT.into(),
        subject: subject.into(),
        conditions: plan.thread.label(),
        parameters,
        quantity: Quantity::Response,
    };
    let mut series = cell.tally.to_series(id);
    series.outcome = cell.outcome();
    series.samples = Some(cell.responses.clone());
    session.add_series(series);
    session.add_usage(cell.usage.usage());
}
