//! How a fixed piece of work speeds up under each governor.
//!
//! Per round each governor has its turn: it is set, the CPU rests, and a thread does so many loops, as fast as it can. The
//! figures are a series per governor with every loop in order, and what follows from them: the time to full speed, or
//! why it was not reached.

mod facts;
mod plan;
mod runner;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_record::{ConditionSet, NotMeasured, Notice, Param, Quantity, SeriesId, SeriesTally};

use super::Error;
use super::settle::{arrival, median};
use crate::Session;
use crate::session;
use crate::usage::Sum;
use facts::Facts;
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
    rounds: Vec<Vec<i64>>,
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
}

/// What the run brought.
#[derive(Debug, Default)]
struct Ledger {
    cells: Vec<Cell>,
    steps: u64,
    cpu: Option<usize>,
    applied: Option<punctual::Applied>,
    refused: Vec<punctual::Refused>,
    notices: Vec<Notice>,
    error: Option<punctual::cpufreq::Error>,
    raised: Vec<String>,
}

type Shared = Arc<Mutex<Ledger>>;

fn open(ledger: &Shared) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger: Shared = Arc::default();
    session.perform({
        let (plan, ledger) = (Arc::clone(&plan), Arc::clone(&ledger));
        move |stage| runner::perform(&plan, &ledger, stage)
    })?;
    let ledger = std::mem::take(&mut *open(&ledger));
    if let Some(error) = ledger.error {
        return Err(error.into());
    }
    report(&plan, ledger, session)
}

fn report(plan: &Plan, mut ledger: Ledger, session: &mut Session<'_>) -> Result<(), Error> {
    let refusals: Vec<_> = ledger.refused.iter().map(session::refusal).collect();
    if let (true, Some(r)) = (plan.require, refusals.first().cloned()) {
        return Err(crate::Refused { condition: r.condition, asked: r.asked, why: r.why, remedy: r.remedy }.into());
    }
    let label = plan.label();
    for refusal in &refusals {
        session.notice(Notice::ConditionRefused { conditions: label.clone(), refusal: refusal.clone() });
    }
    for notice in std::mem::take(&mut ledger.notices) {
        session.notice(notice);
    }
    if let Some(applied) = &ledger.applied {
        session.add_conditions(ConditionSet {
            label: label.clone(),
            asked: session::asked(&plan.conditions(ledger.cpu)),
            applied: session::applied(applied),
            refused: refusals,
        });
    }
    let best = ledger.cells.iter().flat_map(|cell| cell.rounds.iter().flatten()).min().copied();
    let granted = ledger.refused.iter().all(|r| r.condition != punctual::Condition::Policy);
    for cell in &ledger.cells {
        if let Some((why, remedy)) = &cell.failure {
            session.add_not_measured(NotMeasured {
                experiment: EXPERIMENT.into(),
                subject: cell.subject().into(),
                conditions: None,
                parameters: BTreeMap::new(),
                why: why.clone(),
                remedy: remedy.clone(),
            });
        }
        if let (Some(best), false) = (best, cell.rounds.is_empty()) {
            let parameters = parameters(plan, cell, &ledger, best, granted);
            let id = SeriesId {
                experiment: EXPERIMENT.into(),
                subject: cell.subject().into(),
                conditions: label.clone(),
                parameters,
                quantity: Quantity::Loop,
            };
            let mut series = cell.tally.to_series(id);
            series.samples = Some(cell.rounds.concat());
            session.add_series(series);
            session.add_usage(cell.usage.usage());
        }
    }
    Ok(())
}

/// What else there is to say of a governor's loops, for the record.
fn parameters(plan: &Plan, cell: &Cell, ledger: &Ledger, best: i64, granted: bool) -> BTreeMap<String, Param> {
    let mut all = BTreeMap::from([
        ("loops".to_owned(), Param::Int(i64::from(plan.loops))),
        ("work_ns".to_owned(), Param::Int(plan.work.as_nanos() as i64)),
        ("steps".to_owned(), Param::Int(ledger.steps as i64)),
        ("rested_ns".to_owned(), Param::Int(plan.rest.as_nanos() as i64)),
        ("best_ns".to_owned(), Param::Int(best)),
    ]);
    let mut put = |name: &str, value: Option<Param>| all.extend(value.map(|value| (name.to_owned(), value)));
    let of = |pick: &dyn Fn(&[i64]) -> Option<i64>| {
        let picked: Vec<i64> = cell.rounds.iter().filter_map(|round| pick(round)).collect();
        median(&picked)
    };
    put("first_ns", of(&|round| round.first().copied()).map(Param::Int));
    put("final_ns", of(&|round| round.last().copied()).map(Param::Int));
    let arrivals: Vec<i64> =
        cell.rounds.iter().filter_map(|round| arrival(round, best, false).map(|at| round[..at].iter().sum())).collect();
    put("rounds_at_full_speed", Some(Param::Int(arrivals.len() as i64)));
    let reached = arrivals.len() * 2 > cell.rounds.len();
    put("to_full_speed_ns", median(&arrivals).filter(|_| reached).map(Param::Int));
    let transitions: Option<Vec<u64>> = cell.transitions.iter().copied().collect();
    let changed = transitions.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<u64>());
    put("transitions", changed.map(|n| Param::Int(n as i64)));
    let ended: Vec<i64> = cell.ended_khz.iter().flatten().map(|khz| *khz as i64).collect();
    let ended = median(&ended);
    put("ended_khz", ended.map(Param::Int));
    put("cpu", ledger.cpu.map(|cpu| Param::Int(cpu as i64)));
    put("driver", cell.facts.driver.clone().map(Param::Text));
    put("max_khz", cell.facts.max_khz.map(|khz| Param::Int(khz as i64)));
    put("raised", (!ledger.raised.is_empty()).then(|| Param::Text(ledger.raised.join(", "))));
    let slow = ended.zip(cell.facts.max_khz).is_some_and(|(ended, max)| ended < max as i64);
    if !reached || slow {
        let priority = plan.policy.and_then(real_time_priority).filter(|_| granted);
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
