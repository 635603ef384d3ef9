//! How a fixed piece of work speeds up under each governor.
//!
//! Per round each governor has its turn: it is set, the CPU rests, and a thread does so many loops, as fast as it can. The
//! figures are a series per governor with every loop in order, and what follows from them: the time to full speed, or
//! why it was not reached.

mod facts;
mod loops;
mod plan;
mod runner;

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_record::{Param, Quantity, SeriesId, SeriesTally};

use super::Error;
use super::frame::{self, Findings};
use super::settle::{arrival, median};
use crate::Session;
use crate::usage::Sum;
use facts::Facts;
use loops::Loop;
pub use plan::{Governors, Plan, Wanted};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "ramp";
/// The subject where no governor was set: whatever the machine does.
pub const AS_FOUND: &str = "as found";
/// Longest time that a real-time thread loops without a break: below the 950 ms after which the kernel interferes, with room for the
/// loops to be slower than planned.
pub const LONGEST_REAL_TIME: Duration = Duration::from_millis(400);

/// The loops of one governor.
#[derive(Debug, Default)]
struct Cell {
    governor: Option<String>,
    tally: SeriesTally,
    /// Round after round, every loop in order.
    rounds: Vec<Vec<Loop>>,
    /// Frequency changes during the loops, per round, where the kernel counts them.
    transitions: Vec<Option<u64>>,
    /// The frequency after the last loop, per round, where the kernel tells.
    ended_khz: Vec<Option<u64>>,
    usage: Sum,
    facts: Facts,
    failure: Option<(String, Option<String>)>,
}

impl Cell {
    fn subject(&self) -> &str {
        self.governor.as_deref().unwrap_or(AS_FOUND)
    }

    /// How long each loop took, round after round.
    fn durations(&self) -> impl Iterator<Item = Vec<i64>> {
        self.rounds.iter().map(|round| round.iter().map(|its| its.ns).collect())
    }

    /// What of the variation is the work's own, and what the machine adds: `own_spread`, `interrupted_share` of the loops, and of those
    /// `interruption_ns` at the median.
    fn outcome(&self) -> BTreeMap<String, Param> {
        let taken: Option<Vec<i64>> = self.rounds.iter().flatten().map(|its| its.taken_ns).collect();
        let Some(taken) = taken.filter(|all| !all.is_empty()) else { return BTreeMap::new() };
        let interrupted: Vec<i64> = taken.iter().copied().filter(|ns| *ns > 0).collect();
        let share = interrupted.len() as f64 / taken.len() as f64;
        let mut all = BTreeMap::from([("interrupted_share".to_owned(), Param::Real(share))]);
        all.extend(median(&interrupted).map(|ns| ("interruption_ns".to_owned(), Param::Int(ns))));
        all.extend(loops::own_spread(&self.rounds).map(|spread| ("own_spread".to_owned(), Param::Real(spread))));
        all
    }
}

/// What the run brought.
#[derive(Debug, Default)]
struct Figures {
    cells: Vec<Cell>,
    steps: u64,
    raised: Vec<String>,
}

type Ledger = frame::Ledger<Figures>;

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let thread = plan.thread.clone();
    let findings = frame::run(&thread, plan.at_most, session, {
        let plan = plan.clone();
        move |stage, ledger: &Ledger| runner::perform(&plan, ledger, stage)
    })?;
    report(&plan, &findings, session);
    findings.met()
}

fn report(plan: &Plan, findings: &Findings<Figures>, session: &mut Session<'_>) {
    let label = plan.thread.label();
    let ledger = &findings.figures;
    let best = ledger.cells.iter().flat_map(|cell| cell.rounds.iter().flatten()).map(|its| its.ns).min();
    let granted = findings.refused.iter().all(|r| r.condition != punctual::Condition::Policy);
    for cell in &ledger.cells {
        if let Some((why, remedy)) = &cell.failure {
            session.add_not_measured(frame::not_measured(EXPERIMENT, cell.subject(), why.clone(), remedy.clone()));
        }
        if let (Some(best), false) = (best, cell.rounds.is_empty()) {
            let parameters = parameters(plan, cell, findings, best, granted);
            let id = SeriesId {
                experiment: EXPERIMENT.into(),
                subject: cell.subject().into(),
                conditions: label.clone(),
                parameters,
                quantity: Quantity::Loop,
            };
            let mut series = cell.tally.to_series(id);
            series.samples = Some(cell.durations().flatten().collect());
            series.outcome = cell.outcome();
            session.add_series(series);
            session.add_usage(cell.usage.usage());
        }
    }
}

/// What else there is to say of a governor's loops, for the record.
fn parameters(
    plan: &Plan,
    cell: &Cell,
    findings: &Findings<Figures>,
    best: i64,
    granted: bool,
) -> BTreeMap<String, Param> {
    let ledger = &findings.figures;
    let mut all = BTreeMap::from([
        ("loops".to_owned(), Param::Int(i64::from(plan.loops))),
        ("work_ns".to_owned(), Param::Int(plan.work.as_nanos() as i64)),
        ("steps".to_owned(), Param::Int(ledger.steps as i64)),
        ("rested_ns".to_owned(), Param::Int(plan.rest.as_nanos() as i64)),
        ("best_ns".to_owned(), Param::Int(best)),
    ]);
    let mut put = |name: &str, value: Option<Param>| all.extend(value.map(|value| (name.to_owned(), value)));
    let of = |pick: &dyn Fn(&[i64]) -> Option<i64>| {
        let picked: Vec<i64> = cell.durations().filter_map(|round| pick(&round)).collect();
        median(&picked)
    };
    put("first_ns", of(&|round| round.first().copied()).map(Param::Int));
    put("final_ns", of(&|round| round.last().copied()).map(Param::Int));
    let arrived = |round: Vec<i64>| arrival(&round, best, false).map(|at| round[..at].iter().sum());
    let arrivals: Vec<i64> = cell.durations().filter_map(arrived).collect();
    put("rounds_at_full_speed", Some(Param::Int(arrivals.len() as i64)));
    let reached = arrivals.len() * 2 > cell.rounds.len();
    put("to_full_speed_ns", median(&arrivals).filter(|_| reached).map(Param::Int));
    let transitions: Option<Vec<u64>> = cell.transitions.iter().copied().collect();
    let changed = transitions.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<u64>());
    put("transitions", changed.map(|n| Param::Int(n as i64)));
    let ended: Vec<i64> = cell.ended_khz.iter().flatten().map(|khz| *khz as i64).collect();
    let ended = median(&ended);
    put("ended_khz", ended.map(Param::Int));
    put("cpu", findings.cpu.map(|cpu| Param::Int(cpu as i64)));
    put("driver", cell.facts.driver.clone().map(Param::Text));
    put("max_khz", cell.facts.max_khz.map(|khz| Param::Int(khz as i64)));
    put("raised", (!ledger.raised.is_empty()).then(|| Param::Text(ledger.raised.join(", "))));
    let slow = ended.zip(cell.facts.max_khz).is_some_and(|(ended, max)| ended < max as i64);
    if !reached || slow {
        let priority = plan.thread.policy.and_then(real_time_priority).filter(|_| granted);
        put(
            "why",
            cell.facts
                .why_slow(cell.governor.as_deref(), priority, changed, !ledger.raised.is_empty())
                .map(Param::Text),
        );
    }
    all
}

fn real_time_priority(policy: punctual::Policy) -> Option<u32> {
    match policy {
        punctual::Policy::Fifo(priority) | punctual::Policy::RoundRobin(priority) => Some(u32::from(priority)),
        _ => None,
    }
}
