//! What a sleep adds on this machine (TN), and what taking the time costs (TS + TE).
//!
//! The model is elapsed = (TS + TE) + X·(TN + T): X sleeps of T in a row, timed once before and once after. Many X and T are measured in each
//! round and fitted robustly ([`mod@fit`]); the rounds give the spread of TN and its drift. Then comes the proof: waits shortened by
//! that TN, next to plain ones and to the library's compensated sleep, and how exact they were.
//!
//! In goes a [`Plan`]; out come, per method and variant of conditions, series of the experiment `calibrate` told apart by the parameter `figure`:
//! `sleep_adds` and `clock_costs` (a sample per round, in order), `plain`, `compensated` and `compensated_sleeper` (the error of each
//! wait, signed). Only ways that take a duration can be calibrated so: an absolute deadline does not add up.

pub mod fit;
mod plan;
mod proof;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::conditions::{Conditions, Guard};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{NotMeasured, Param, Quantity, Recorder, Series, SeriesId, SeriesTally};

use crate::breaks::Look;
use crate::hold::Hold;
use crate::left_out::Spoilt;
use crate::rounds::{self, Failure};
use crate::stage::{Progress, Stage};
use crate::usage::{Meter, Sum};
use crate::wait::method::{Unavailable, Waiter};
use crate::{Place, Session, Variant, clock_cost, family};
use fit::{Fit, Point, fit, quantile, slope};
pub use plan::{Plan, PlanError, Wanted, can_be_calibrated};
use proof::{Proof, prove};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "calibrate";

/// Sleeps in a row.
const SLEEPS: [u32; 5] = [1, 2, 4, 8, 16];
/// Times asked of each, ns.
const ASKED_NS: [i64; 4] = [10_000, 30_000, 100_000, 200_000];

/// A cell is given up when this many of its rounds were left out.
const MOST_SPOILT: u32 = 20;

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

/// What is known of a cell so far.
#[derive(Default)]
struct Known {
    /// When each round ended, and what was fitted in it.
    rounds: Vec<(i64, Fit)>,
    usage: Sum,
    proof: Option<Proof>,
    failure: Option<Failure>,
    /// Rounds that were left out.
    spoilt: u32,
}

impl Known {
    /// How far it is.
    const fn mark(&self) -> (usize, bool) {
        (self.rounds.len(), self.failure.is_some())
    }

    /// Forgets what came since; a cell that has to do so again and again is given up.
    fn go_back_to(&mut self, (rounds, failed): (usize, bool), why: &Spoilt) {
        self.rounds.truncate(rounds);
        self.proof = None;
        self.failure = self.failure.take().filter(|_| failed);
        self.spoilt += 1;
        if self.spoilt >= MOST_SPOILT {
            self.failure.get_or_insert_with(|| Failure::again_and_again(why));
        }
    }
}

type Shared = Arc<Mutex<Vec<Known>>>;

fn open(known: &Shared) -> std::sync::MutexGuard<'_, Vec<Known>> {
    known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.wanted.variants.len());
    let known: Shared = Arc::new(Mutex::new(plan.cells.iter().map(|_| Known::default()).collect()));
    let real_time = plan.wanted.variants.iter().any(Variant::is_real_time);
    let refused = session.perform(Place::on(plan.wanted.base.cpus.as_ref(), real_time), {
        let (plan, ledger, known) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&known));
        move |stage| {
            stage.announce(plan.at_most());
            let mut guard = Conditions { one_way: true, ..plan.wanted.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.wanted.require || refused.is_empty() {
                measure(&plan, &mut guard, &ledger, &known, stage);
            }
            family::put_back(guard, &ledger);
            refused
        }
    })?;
    let ledger = std::mem::take(&mut *rounds::open(&ledger));
    let known = std::mem::take(&mut *open(&known));
    let wanted = &plan.wanted;
    let refused = refused.unwrap_or_default();
    let met = family::report_conditions(&wanted.variants, &wanted.base, wanted.require, &ledger, &refused, session);
    for (cell, known) in known.iter().enumerate() {
        report(&plan, cell, known, session);
    }
    family::close(ledger, session);
    Ok(met?)
}

/// All rounds of all cells, then the proof.
fn measure(plan: &Plan, base: &mut Guard, ledger: &rounds::SharedLedger, known: &Shared, stage: &Stage) {
    let mut waiters: Vec<Result<Box<dyn Waiter>, Unavailable>> =
        plan.wanted.methods.iter().map(|method| (method.open)()).collect();
    let begin = now_ns(Clock::Monotonic);
    let total = plan.takes();
    let mut proving = false;
    loop {
        for (variant, conditions) in plan.wanted.variants.iter().enumerate() {
            let mut guard = conditions.conditions.apply();
            let refused = guard.refused().to_vec();
            let left_out = !refused.is_empty() && (plan.wanted.variants.len() > 1 || plan.wanted.require);
            let held = rounds::Held { applied: guard.applied().clone(), refused, left_out };
            rounds::open(ledger).held[variant].get_or_insert(held);
            let hold = Hold::of(ledger, variant, &conditions.label, Look::now);
            for cell in (0..plan.cells.len()).filter(|&c| plan.cells[c].1 == variant && !left_out) {
                let gone = Duration::from_nanos((now_ns(Clock::Monotonic) - begin).unsigned_abs());
                let done = (gone.as_secs_f64() / total.as_secs_f64()).min(1.0);
                let doing = say(plan, cell, &open(known)[cell]);
                if !stage.pause(Progress { doing, done, left: total.saturating_sub(gone) }) {
                    return;
                }
                let waiter = &mut waiters[plan.cells[cell].0];
                // What is refused is still lost, as will be seen.
                let _ = hold.renew(&mut guard, base);
                let (before, so_far) = (Look::now(), open(known)[cell].mark());
                if step(plan, cell, waiter, proving, known).is_err() {
                    return;
                }
                let expected_ns = plan.step_ns(proving);
                if let Some(why) = hold.spoilt((&guard, base), &before, (expected_ns, 0), &[]) {
                    open(known)[cell].go_back_to(so_far, &why);
                    if rounds::leave_out(ledger, why, plan.wanted.require) {
                        return;
                    }
                }
            }
            family::put_back(guard, ledger);
        }
        if proving || open(known).iter().all(|its| its.failure.is_some()) {
            return;
        }
        let gone = now_ns(Clock::Monotonic) - begin;
        let rounds = open(known).iter().map(|k| k.rounds.len()).max().unwrap_or(0);
        proving = plan.enough(rounds, Duration::from_nanos(gone.unsigned_abs()));
    }
}

/// What is known of a cell, for whoever watches.
fn say(plan: &Plan, cell: usize, known: &Known) -> String {
    let (method, variant) = plan.cells[cell];
    let name = format!("{} ({})", plan.wanted.methods[method].name, plan.wanted.variants[variant].label);
    let mut newest: Vec<f64> = known.rounds.iter().rev().take(20).map(|(_, fit)| fit.sleep_adds_ns / 1e3).collect();
    match fit::median(&mut newest) {
        Some(tn) => format!("{name}: a sleep adds {tn:.2} us"),
        None => name,
    }
}

/// A round or a proof of one cell. Error: the run was asked to end.
fn step(
    plan: &Plan,
    cell: usize,
    waiter: &mut Result<Box<dyn Waiter>, Unavailable>,
    proving: bool,
    known: &Shared,
) -> Result<(), ()> {
    if open(known)[cell].failure.is_some() {
        return Ok(());
    }
    let waiter = match waiter {
        Ok(waiter) => waiter.as_mut(),
        Err(no) => {
            let failure = Failure::Impossible { why: no.why.clone(), remedy: no.remedy.clone() };
            open(known)[cell].failure = Some(failure);
            return Ok(());
        }
    };
    let outcome = if proving {
        let mut tn: Vec<f64> = open(known)[cell].rounds.iter().map(|(_, fit)| fit.sleep_adds_ns).collect();
        let Some(tn) = fit::median(&mut tn) else { return Ok(()) };
        prove(waiter, tn, plan.wanted.check).map(|proof| open(known)[cell].proof = Some(proof))
    } else {
        let meter = Meter::start();
        round(waiter).map(|fitted| {
            let mut known = open(known);
            known[cell].rounds.extend(fitted.map(|fit| (now_ns(Clock::Monotonic), fit)));
            known[cell].usage.add(meter.stop());
        })
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(_) if linux::stop::requested() => Err(()),
        Err(error) => {
            let why = format!("{}: {error}", plan.wanted.methods[plan.cells[cell].0].call);
            open(known)[cell].failure = Some(Failure::Impossible { why, remedy: None });
            Ok(())
        }
    }
}

/// One measurement of every X and T, and their fit.
fn round(waiter: &mut dyn Waiter) -> linux::Result<Option<Fit>> {
    let mut points = Vec::with_capacity(SLEEPS.len() * ASKED_NS.len());
    for asked_ns in ASKED_NS {
        for sleeps in SLEEPS {
            let begin = now_ns(Clock::Monotonic);
            for _ in 0..sleeps {
                waiter.wait(begin, asked_ns)?;
            }
            let elapsed_ns = now_ns(Clock::Monotonic) - begin;
            points.push(Point { sleeps, asked_ns, elapsed_ns });
        }
    }
    Ok(fit(&points))
}

fn identity(plan: &Plan, cell: usize, figure: &str) -> SeriesId {
    let (method, variant) = plan.cells[cell];
    let method = plan.wanted.methods[method];
    SeriesId {
        experiment: EXPERIMENT.into(),
        subject: method.name.into(),
        conditions: plan.wanted.variants[variant].label.clone(),
        parameters: BTreeMap::from([
            ("figure".to_owned(), Param::Text(figure.into())),
            ("call".to_owned(), Param::Text(method.call.into())),
        ]),
        quantity: Quantity::Overshoot,
    }
}

fn report(plan: &Plan, cell: usize, known: &Known, session: &mut Session<'_>) {
    if known.rounds.is_empty() {
        if let Some(Failure::Impossible { why, remedy }) = &known.failure {
            session.add_not_measured(NotMeasured {
                experiment: EXPERIMENT.into(),
                subject: plan.wanted.methods[plan.cells[cell].0].name.into(),
                conditions: None,
                parameters: BTreeMap::new(),
                why: why.clone(),
                remedy: remedy.clone(),
            });
        }
        return;
    }
    let mut adds = per_round(plan, cell, known, "sleep_adds", |fit| fit.sleep_adds_ns);
    adds.outcome = drift(known);
    session.add_usage(known.usage.usage());
    session.add_series(adds);
    session.add_series(per_round(plan, cell, known, "clock_costs", |fit| fit.clock_costs_ns));
    let Some(proof) = &known.proof else { return };
    for (figure, recorder) in proof.figures() {
        let mut tally = SeriesTally::new();
        tally.add_round(0, 0, recorder.0, recorder.1);
        let mut series = tally.to_series(identity(plan, cell, figure));
        series.parameters.insert("asked_ns".into(), Param::Int(proof.asked_ns));
        if figure == "compensated" {
            series.parameters.insert("shortened_by_ns".into(), Param::Real(proof.shortened_by_ns));
        }
        session.add_series(series);
    }
}

/// A series of one figure per round, in order.
fn per_round(plan: &Plan, cell: usize, known: &Known, figure: &str, of: fn(&Fit) -> f64) -> Series {
    let mut recorder = Recorder::new();
    let samples: Vec<i64> = known.rounds.iter().map(|(_, fit)| of(fit).round() as i64).collect();
    samples.iter().for_each(|&sample| recorder.record(sample));
    let mut tally = SeriesTally::new();
    tally.add_round(0, 0, &recorder, punctual_record::Usage::default());
    Series { samples: Some(samples), ..tally.to_series(identity(plan, cell, figure)) }
}

/// Spread and drift of TN, and what the clock costs when it is measured by itself.
fn drift(known: &Known) -> BTreeMap<String, Param> {
    let mut tn: Vec<f64> = known.rounds.iter().map(|(_, fit)| fit.sleep_adds_ns).collect();
    let begin = known.rounds.first().map_or(0, |(at, _)| *at);
    // A few hundred rounds make a few ten thousand pairs; more are thinned out.
    let thin = known.rounds.len().div_ceil(300).max(1);
    let over_time: Vec<(f64, f64)> =
        known.rounds.iter().step_by(thin).map(|(at, fit)| ((at - begin) as f64 / 1e9, fit.sleep_adds_ns)).collect();
    let mut outcome = BTreeMap::from([("clock_read_ns".to_owned(), Param::Real(clock_cost::measure().read_ns))]);
    let mut add = |name: &str, value: Option<f64>| {
        outcome.extend(value.map(|value| (name.to_owned(), Param::Real(value))));
    };
    add("p5_ns", quantile(&mut tn, 0.05));
    add("p95_ns", quantile(&mut tn, 0.95));
    add("drift_ns_per_s", slope(&over_time));
    outcome
}
