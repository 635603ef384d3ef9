//! What switching governors takes: the write itself, and the time until loops run at the new speed.
//!
//! One thread loops on one CPU and stamps every loop; another, on another CPU, writes the governor at a known moment. Each turn
//! switches once there and once back.

mod analysis;
mod plan;
mod runner;

use std::collections::BTreeMap;

use punctual_record::{Param, Quantity, Recorder, SeriesId, SeriesTally, Usage};

use super::Error;
use super::frame::{self, Findings};
use crate::Session;
pub use plan::{Plan, Wanted};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "switch";

/// One switch, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switch {
    /// Index of the governor switched to.
    to: usize,
    round: u32,
    write_ns: i64,
    seen: analysis::Seen,
}

/// What the run brought.
#[derive(Debug, Default)]
struct Figures {
    switches: Vec<Switch>,
    from_cpu: Option<usize>,
    failure: Option<(String, String)>,
    work_ns: i64,
}

type Ledger = frame::Ledger<Figures>;

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let thread = plan.thread.clone();
    let findings = frame::run(&thread, plan.at_most, session, {
        let plan = plan.clone();
        move |stage, ledger: &Ledger| runner::perform(&plan, ledger, stage)
    })?;
    if let Some((why, remedy)) = &findings.figures.failure {
        session.add_not_measured(frame::not_measured(EXPERIMENT, &plan.subject(1), why.clone(), Some(remedy.clone())));
        return Ok(());
    }
    for to in [1, 0] {
        report_direction(&plan, &findings, to, session);
    }
    findings.met()
}

/// The two series of one direction.
fn report_direction(plan: &Plan, findings: &Findings<Figures>, to: usize, session: &mut Session<'_>) {
    let figures = &findings.figures;
    let switches: Vec<&Switch> = figures.switches.iter().filter(|switch| switch.to == to).collect();
    if switches.is_empty() {
        return;
    }
    let subject = plan.subject(to);
    let mut parameters = BTreeMap::from([("loop_ns".to_owned(), Param::Int(figures.work_ns))]);
    let mut put = |name: &str, value: Option<i64>| parameters.extend(value.map(|v| (name.to_owned(), Param::Int(v))));
    let levels = |pick: fn(&analysis::Seen) -> Option<i64>| {
        super::settle::median(&switches.iter().filter_map(|switch| pick(&switch.seen)).collect::<Vec<_>>())
    };
    put("before_ns", levels(|seen| seen.before_ns));
    put("after_ns", levels(|seen| seen.after_ns));
    put("cpu", findings.cpu.map(|cpu| cpu as i64));
    put("switched_from_cpu", figures.from_cpu.map(|cpu| cpu as i64));
    put("not_seen", Some(switches.iter().filter(|switch| switch.seen.settled_ns.is_none()).count() as i64));
    let id = |quantity| SeriesId {
        experiment: EXPERIMENT.into(),
        subject: subject.clone(),
        conditions: plan.thread.label(),
        parameters: parameters.clone(),
        quantity,
    };
    let write = |switch: &&Switch| Some((switch.round, switch.write_ns));
    session.add_series(tally(switches.iter().filter_map(write)).to_series(id(Quantity::CallCost)));
    let settled = |switch: &&Switch| switch.seen.settled_ns.map(|ns| (switch.round, ns));
    let settled = tally(switches.iter().filter_map(settled));
    if settled.count() > 0 {
        session.add_series(settled.to_series(id(Quantity::Settling)));
    } else {
        let why =
            "loops take as long after the switch as before it: the speed does not follow the governor here".to_owned();
        let remedy =
            "measure on a CPU whose clock really changes; two governors that keep the same speed show nothing either";
        session.add_not_measured(frame::not_measured(EXPERIMENT, &subject, why, Some(remedy.into())));
    }
}

/// One batch per round.
fn tally(samples: impl Iterator<Item = (u32, i64)>) -> SeriesTally {
    let mut rounds: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for (round, ns) in samples {
        rounds.entry(round).or_default().push(ns);
    }
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for (round, samples) in rounds {
        recorder.clear();
        samples.iter().for_each(|&ns| recorder.record(ns));
        tally.add_round(round, 0, &recorder, Usage::default());
    }
    tally
}
