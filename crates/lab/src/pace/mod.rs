//! How evenly events leave, and arrive, when a program paces them: UDP datagrams, or ticks without a network.
//!
//! In goes a [`Plan`]; the figures go into the [`Session`], per way of pacing and variant of conditions: `lateness` of each departure against the
//! ideal schedule, `period_jitter` of departures and of arrivals, `one_way` latency, and as outcome the rate reached, how departures
//! drift from the schedule, and what was not sent, lost or reordered. Departures are the kernel's own stamps where it gives them.
//! Sending never waits for room: what finds none is counted.
//!
//! To the loopback, a receiver of our own is started as a child process. [`receive`] is a receiver by itself.

mod bench;
mod drift;
mod flow;
pub mod packet;
mod plan;
pub mod receive;
mod receiver;
mod stamp_clock;
mod stand;
mod sweep;
pub mod way;
pub mod ways;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::conditions::Conditions;
use punctual_record::{NotMeasured, Notice, Param, Quantity, Series, SeriesId, SeriesTally};

pub use plan::{Goal, MOST_BYTES_UNASKED, MOST_UNASKED, Plan, PlanError, Target, Wanted};

use crate::breaks::Look;
use crate::rounds::{self, Failure, Ledger, Rounds};
use crate::{Session, family};
use bench::{Beside, PaceBench, Reception, SharedBeside};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "pace";

/// Why the experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No thread could be started.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = crate::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// A condition was refused or lost, and the caller insists on it.
    #[error(transparent)]
    Unmet(#[from] family::Unmet),
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    match plan.wanted.goal {
        Goal::Keep(rate) => keep(plan, rate, session),
        Goal::Highest { .. } => sweep::run(plan, session),
    }
}

fn keep(plan: Plan, rate: punctual::Rate, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.wanted.variants.len());
    let beside: SharedBeside = Arc::new(Mutex::new((0..plan.cells.len()).map(|_| Beside::default()).collect()));
    let done = session.perform(plan.place(), {
        let (plan, ledger, beside) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&beside));
        move |stage| {
            stage.announce(plan.schedule(rate).at_most());
            // Before anything is applied: the receiver's conditions are its own, not the sender's.
            let (bench, reception) = PaceBench::open(&plan, &beside);
            // The thread ends with the experiment: what cannot be put back ends with it.
            let mut guard = Conditions { one_way: true, ..plan.wanted.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            let wanted = &plan.wanted;
            if !wanted.require || refused.is_empty() {
                let (rounds, require, variants) = (wanted.rounds, wanted.require, wanted.variants.as_slice());
                let schedule = plan.schedule(rate);
                let (ledger, base, look) = (Arc::clone(&ledger), &mut guard, Look::now);
                Rounds { bench, schedule, variants, rounds, require, ledger, stage, base, look }.perform();
            }
            family::put_back(guard, &ledger);
            (refused, reception)
        }
    })?;
    let ledger = std::mem::take(&mut *rounds::open(&ledger));
    let beside = std::mem::take(&mut *bench::open(&beside));
    let (refused, reception) = done.unwrap_or((Vec::new(), Reception::Own));
    let wanted = &plan.wanted;
    let met = family::report_conditions(&wanted.variants, &wanted.base, wanted.require, &ledger, &refused, session);
    say_reception(&reception, session);
    say_bursts(&plan, rate, &ledger, session);
    report(&plan, rate, &ledger, &beside, session);
    family::close(ledger, session);
    Ok(met?)
}

/// Arrivals that are not measured are said to be so.
fn say_reception(reception: &Reception, session: &mut Session<'_>) {
    let text = match reception {
        Reception::Own => return,
        Reception::Elsewhere => {
            "arrivals are not measured: the datagrams go to another machine; `punctual pace --receive` there measures them".to_owned()
        }
        Reception::Taken(address) => {
            format!("arrivals are not measured: another program receives at {address}; `punctual pace --receive` would measure them")
        }
        Reception::Failed(why) => format!("arrivals are not measured: no receiver could be started: {why}"),
    };
    session.notice(Notice::Other { text });
}

/// From this rate on fq lets a quantum go at once instead of spacing datagrams, unless it is set otherwise: `low_rate_threshold` of
/// 550 kbit/s (tc-fq(8); fq_dequeue in net/sched/sch_fq.c).
const LOW_RATE_BYTES: f64 = 550_000.0 / 8.0;

/// What fq makes of rates above its threshold is said: it looks like jitter, and is meant.
fn say_bursts(plan: &Plan, rate: punctual::Rate, ledger: &Ledger, session: &mut Session<'_>) {
    let Target::Udp { to, size } = plan.wanted.target else { return };
    let is_by_fq = |way: usize| plan.wanted.ways[way].mode == way::Mode::KernelRate;
    let by_fq = plan.cells.iter().zip(&ledger.tallies).any(|((way, _), tally)| is_by_fq(*way) && tally.count() > 0);
    if by_fq && wire::Wire::bytes_per_second(to, size, rate.per_second_f64()) > LOW_RATE_BYTES {
        let text = "so_max_pacing_rate: above low_rate_threshold (550 kbit/s, unless it is set otherwise) fq lets a quantum of bytes leave \
                    at once (two packets of the interface's MTU, and ten at first) and then waits; to space each datagram: \
                    tc qdisc replace dev INTERFACE root fq low_rate_threshold 10gbit";
        session.notice(Notice::Other { text: text.into() });
    }
}

fn report(plan: &Plan, rate: punctual::Rate, ledger: &Ledger, beside: &[Beside], session: &mut Session<'_>) {
    let mut judge = family::Judge::default();
    for (cell, beside) in beside.iter().enumerate() {
        let tally = &ledger.tallies[cell];
        if tally.count() == 0 {
            let left_out = ledger.held[plan.cells[cell].1].as_ref().is_some_and(|held| held.left_out);
            let reason = why_not(&ledger.failures[cell], session.stopped());
            if let (false, Some((why, remedy))) = (left_out, reason) {
                session.add_not_measured(not_measured(plan, cell, why, remedy));
            }
            continue;
        }
        let mut lateness = tally.to_series(identity(plan, cell, rate, Quantity::Lateness, "departure"));
        lateness.outcome = outcome(rate, beside);
        judge.look_at(&lateness);
        session.add_series(lateness);
        let mut add = |tally: &SeriesTally, quantity, measured| {
            if tally.count() > 0 {
                session.add_series(without_use(tally.to_series(identity(plan, cell, rate, quantity, measured))));
            }
        };
        add(&beside.jitter, Quantity::PeriodJitter, "departure");
        add(&beside.arrival_jitter, Quantity::PeriodJitter, "arrival");
        add(&beside.one_way, Quantity::OneWay, "arrival");
    }
    judge.say(session);
}

/// The use of the machine belongs to the lateness series, which has an operation for every event.
fn without_use(series: Series) -> Series {
    Series {
        cpu_ns_per_op: None,
        cpu_share: None,
        voluntary_switches_per_op: None,
        involuntary_switches_per_op: None,
        ..series
    }
}

fn identity(plan: &Plan, cell: usize, rate: punctual::Rate, quantity: Quantity, measured: &str) -> SeriesId {
    let (way, variant) = plan.cells[cell];
    let way = plan.wanted.ways[way];
    let mut parameters = BTreeMap::from([
        ("rate_per_second".to_owned(), Param::Real(rate.per_second_f64())),
        ("measured".to_owned(), Param::Text(measured.into())),
        ("call".to_owned(), Param::Text(way.call.into())),
    ]);
    match plan.wanted.target {
        Target::TickOnly => drop(parameters.insert("to".into(), Param::Text("tick-only".into()))),
        Target::Udp { to, size } => {
            parameters.insert("to".into(), Param::Text(format!("udp {to}")));
            parameters.insert("size".into(), Param::Int(size as i64));
        }
    }
    SeriesId {
        experiment: EXPERIMENT.into(),
        subject: way.name.into(),
        conditions: plan.wanted.variants[variant].label.clone(),
        parameters,
        quantity,
    }
}

fn outcome(rate: punctual::Rate, beside: &Beside) -> BTreeMap<String, Param> {
    let counts = &beside.counts;
    let int = |n: u64| Param::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let departure = if beside.by_kernel { "kernel's stamp" } else { "clock before the call" };
    let mut outcome = BTreeMap::from([
        ("events".to_owned(), int(counts.events)),
        ("departure".to_owned(), Param::Text(departure.into())),
    ]);
    if let Some(reached) = counts.rate_reached() {
        outcome.insert("rate_reached".into(), Param::Real(reached));
        outcome.insert("rate_share".into(), Param::Real(reached / rate.per_second_f64()));
    }
    if let Some((ppm, between)) = beside.drift.ppm() {
        outcome.insert("drift_ppm".into(), Param::Real(ppm));
        if let Some((low, high)) = between {
            outcome.insert("drift_ppm_low".into(), Param::Real(low));
            outcome.insert("drift_ppm_high".into(), Param::Real(high));
        }
    }
    if counts.sent > 0 {
        outcome.insert("not_sent".into(), int(counts.no_room + counts.refused));
        outcome.insert("refused".into(), int(counts.refused));
    }
    if let Some(received) = counts.received {
        outcome.insert("received".into(), int(received));
        outcome.insert("lost".into(), int(counts.sent.saturating_sub(received)));
        outcome.insert("reordered".into(), int(counts.reordered));
        outcome.insert("duplicates".into(), int(counts.twice));
    }
    outcome
}

fn not_measured(plan: &Plan, cell: usize, why: String, remedy: Option<String>) -> NotMeasured {
    let way = plan.wanted.ways[plan.cells[cell].0];
    NotMeasured {
        experiment: EXPERIMENT.into(),
        subject: way.name.into(),
        conditions: None,
        parameters: BTreeMap::new(),
        why,
        remedy,
    }
}

/// Why a cell has no samples.
fn why_not(failure: &Option<Failure>, stopped: bool) -> Option<(String, Option<String>)> {
    match failure {
        Some(Failure::Impossible { why, remedy }) => Some((why.clone(), remedy.clone())),
        _ if stopped => None,
        _ => Some((
            "its share of the time is shorter than a period".into(),
            Some("give more time (--duration), or name fewer methods (--by)".into()),
        )),
    }
}
