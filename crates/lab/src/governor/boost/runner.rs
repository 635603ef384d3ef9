//! The periodic thread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual::cpufreq::{Boost, Cpufreq, Energy, Error, GovernorGuard, Policy, Work};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder};

use super::tally::{Cell, Turn};
use super::{Figures, Ledger, Plan, Subject};
use crate::governor::frame::{PATIENCE, Verdict, Vigil};
use crate::stage::{Progress, Stage};
use crate::usage::Meter;

/// How long the CPU is kept busy before the work is calibrated: several times what the slowest governor takes to full speed.
const WARM_UP: Duration = Duration::from_millis(100);

/// Does everything on the calling thread, which ends afterwards.
pub(super) fn perform(plan: &Plan, ledger: &Ledger, stage: &Stage) {
    let cpu = plan.thread.its_cpu();
    let machine = Machine { cpufreq: Cpufreq::system(), cpu: cpu.unwrap_or(0) };
    // As it was found: what the first guard finds left over by an earlier program, it puts back before anything is read.
    let full = machine.performance();
    {
        let mut findings = ledger.open();
        findings.figures.cells = Subject::ALL.into_iter().map(Cell::new).collect();
        match &full {
            Ok((guard, found)) => {
                findings.figures.governor.clone_from(&found.governor);
                findings.figures.max_khz = found.max_khz;
                let told = guard.replayed().iter().map(|text| Notice::Other { text: text.clone() });
                findings.notices.extend(told);
            }
            Err(error) => {
                for cell in findings.figures.cells.iter_mut().filter(|cell| cell.subject != Subject::AsFound) {
                    cell.failure = Some((error.to_string(), error.remedy()));
                }
            }
        }
    }
    let full = match full {
        Err(error) if plan.thread.require => {
            ledger.open().error = Some(error);
            return;
        }
        full => full.ok().map(|(guard, _)| guard),
    };
    ledger.under_conditions(&plan.thread, cpu, |vigil| turns(plan, vigil, (ledger, stage), &machine, full));
}

/// The policy under the periodic thread.
struct Machine {
    cpufreq: Cpufreq,
    cpu: usize,
}

impl Machine {
    fn policy(&self) -> Result<Policy, Error> {
        self.cpufreq.policies_of(&[self.cpu])?.into_iter().next().ok_or(Error::NoSuchCpu { cpu: self.cpu })
    }

    /// Full speed, and the policy as it was found.
    fn performance(&self) -> Result<(GovernorGuard, Policy), Error> {
        let mut guard = self.cpufreq.guard(&[self.cpu], PATIENCE)?;
        let found = self.policy()?;
        guard.set_governor("performance")?;
        Ok((guard, found))
    }
}

fn turns(
    plan: &Plan,
    vigil: &mut Vigil<'_, Figures>,
    (ledger, stage): (&Ledger, &Stage),
    machine: &Machine,
    full: Option<GovernorGuard>,
) {
    Work::warm_up(WARM_UP);
    let work = Work::calibrate(plan.work);
    ledger.put_back(full);
    ledger.open().figures.steps = work.steps;
    let begin = now_ns(Clock::Monotonic);
    let all = plan.rounds as usize * Subject::ALL.len();
    let each = plan.rest + plan.period.saturating_mul(plan.periods);
    let mut responses = Vec::with_capacity(plan.periods as usize);
    let mut recorder = Recorder::new();
    for n in 0..all {
        let (round, index) = (n / Subject::ALL.len(), n % Subject::ALL.len());
        let subject = Subject::ALL[index];
        if ledger.open().figures.cells[index].failure.is_some() {
            continue;
        }
        let doing = format!("{}, round {} of {}", subject.name(), round + 1, plan.rounds);
        let left = each.saturating_mul((all - n) as u32);
        if !stage.pause(Progress { doing, done: n as f64 / all as f64, left }) {
            return;
        }
        let started = (now_ns(Clock::Monotonic) - begin).unsigned_abs();
        responses.clear();
        let look = vigil.begin();
        let turn = match take_turn(plan, ledger, machine, subject, work, &mut responses) {
            Ok(turn) => turn,
            Err(error) => {
                ledger.open().figures.cells[index].failure = Some((error.to_string(), error.remedy()));
                continue;
            }
        };
        if responses.len() < plan.periods as usize {
            return;
        }
        recorder.clear();
        responses.iter().for_each(|&ns| recorder.record(ns));
        let others = turn.others.clone().map(|found| ("performance", found));
        let largest_ns = recorder.extremes().map_or(0, |(_, max)| max);
        match vigil.end(&look, (each.as_nanos() as u64, largest_ns), others) {
            Verdict::Counts => {}
            Verdict::LeftOut => continue,
            Verdict::Over => return,
        }
        let cell = &mut ledger.open().figures.cells[index];
        cell.tally.add_round(round as u32, started, &recorder, turn.used);
        cell.usage.add(turn.used);
        cell.add(&responses, turn);
    }
}

/// Sets what the subject needs, lets the CPU rest, runs the activations, and puts back.
fn take_turn(
    plan: &Plan,
    ledger: &Ledger,
    machine: &Machine,
    subject: Subject,
    work: Work,
    responses: &mut Vec<i64>,
) -> Result<Turn, Error> {
    let guard = match subject {
        Subject::Performance => Some(machine.performance()?.0),
        _ => None,
    };
    let mut boost = match subject {
        Subject::Boost => Some(Boost::new(&machine.cpufreq, machine.cpu, plan.lever, PATIENCE)?),
        _ => None,
    };
    std::thread::sleep(plan.rest);
    let before = machine.policy().ok();
    let (energy, since) = (machine.cpufreq.energy(), Instant::now());
    let meter = Meter::start();
    let outcome = activations(plan, boost.as_mut(), work, responses);
    let used = meter.stop();
    let counted = since.elapsed();
    let energy = energy.as_ref().and_then(Energy::since_uj).map(|uj| (uj, counted));
    let states = |before: &Policy| machine.policy().map(|now| now.time_in_state_since(before)).unwrap_or_default();
    let time_in_state = before.as_ref().map(states).unwrap_or_default();
    let cost = boost.as_ref().map(Boost::cost);
    let left = boost.map(Boost::restore).unwrap_or_default();
    ledger.open().notices.extend(left.iter().map(crate::governor::frame::settings_left));
    let others = guard.as_ref().and_then(|guard| guard.other_governor("performance"));
    ledger.put_back(guard);
    Ok(Turn { others, met: outcome?, used, time_in_state, energy, cost })
}

/// The activations of a turn: how many deadlines were met.
fn activations(plan: &Plan, mut boost: Option<&mut Boost>, work: Work, responses: &mut Vec<i64>) -> Result<u64, Error> {
    let deadline = plan.deadline.as_nanos() as i64;
    let mut at = Instant::now() + plan.period;
    let mut met = 0;
    while responses.len() < plan.periods as usize && !linux::stop::requested() {
        let activation = match &mut boost {
            Some(boost) => Some(boost.wait_until(at)?),
            None => {
                sleep_until(at);
                None
            }
        };
        black_box(work.perform(black_box(responses.len() as u64)));
        let response = at.elapsed().as_nanos() as i64;
        if let (Some(boost), Some(activation)) = (&mut boost, activation) {
            boost.done(activation, at + plan.deadline)?;
        }
        responses.push(response);
        met += u64::from(response <= deadline);
        at += plan.period;
    }
    Ok(met)
}

fn sleep_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}
