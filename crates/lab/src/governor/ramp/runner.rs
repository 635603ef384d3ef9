//! The looping thread.

use std::time::Duration;

use punctual::cpufreq::{Cpufreq, Error, GovernorGuard, Policy, Wait};
use punctual::{Conditions, Limits, Watchdog};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder};

use super::facts::Facts;
use super::{AS_FOUND, Cell, Governors, Plan, Shared, open};
use crate::governor::under::refused;
use crate::governor::work::Work;
use crate::session;
use crate::stage::{Progress, Stage};
use crate::usage::Meter;

/// How long the CPU is kept busy before the work is calibrated: several times what the slowest governor takes to full speed.
const WARM_UP: Duration = Duration::from_millis(100);
/// Longest wait for another program that holds the settings.
const PATIENCE: Duration = Duration::from_secs(2);
/// Order of the governors: from the one that is fast at once to the one that never is.
const ORDER: [&str; 6] = ["performance", "userspace", "schedutil", "ondemand", "conservative", "powersave"];

/// Does everything on the calling thread, which ends afterwards.
pub(super) fn perform(plan: &Plan, ledger: &Shared, stage: &Stage) {
    let cpu = plan.cpu.or_else(|| Conditions::inspect().cpus.and_then(|cpus| cpus.iter().last()));
    // Before the policy is applied, so that the watchdog does not inherit it.
    let real_time = plan.policy.filter(punctual::Policy::is_real_time);
    let watchdog = real_time.and_then(|policy| Watchdog::over_this_thread(policy, Limits::default()).ok());
    let mut governed = Governed::open(plan, cpu, ledger);
    let conditions = Conditions { one_way: true, ..plan.conditions(cpu) };
    let guard = conditions.apply();
    {
        let mut ledger = open(ledger);
        ledger.cpu = cpu;
        ledger.applied = Some(guard.applied().clone());
        ledger.refused = guard.refused().to_vec();
    }
    if !plan.require || guard.refused().is_empty() {
        rounds(plan, ledger, stage, &mut governed);
    }
    for left in guard.restore() {
        open(ledger).notices.push(session::not_restored(&left));
    }
    governed.put_back(ledger);
    if let Some(tripped) = watchdog.as_ref().and_then(Watchdog::tripped) {
        let busy_ns = tripped.busy.as_nanos() as u64;
        open(ledger).notices.push(Notice::WatchdogTripped { conditions: plan.label(), busy_ns });
    }
}

/// The policy under the looping thread, and the right to change it.
struct Governed {
    cpufreq: Cpufreq,
    cpu: Option<usize>,
    guard: Option<GovernorGuard>,
    thread_priority: Option<u8>,
}

impl Governed {
    /// Finds out what can be set, and lays out the cells accordingly.
    fn open(plan: &Plan, cpu: Option<usize>, ledger: &Shared) -> Self {
        let cpufreq = Cpufreq::system();
        let mut governed = Self { cpufreq, cpu, guard: None, thread_priority: plan.thread_priority };
        let cell = |name: &String| Cell { governor: Some(name.clone()), ..Cell::default() };
        let mut cells = Vec::new();
        match (&plan.governors, governed.take(plan)) {
            (Governors::AsFound, _) => cells.push(Cell::default()),
            (Governors::All, Ok(policy)) => {
                let mut offered = policy.governors.clone();
                offered.sort_by_key(|name| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()));
                cells.extend(offered.iter().map(cell));
            }
            (Governors::Named(names), Ok(_)) => cells.extend(names.iter().map(cell)),
            (_, Err(error)) if plan.require => open(ledger).error = Some(error),
            (Governors::All, Err(error)) => {
                cells.push(Cell::default());
                open(ledger).notices.push(nothing_set(&error));
            }
            (Governors::Named(names), Err(error)) => {
                cells.push(Cell::default());
                let failure = Some((error.to_string(), Some(error.remedy())));
                cells.extend(names.iter().map(|name| Cell { failure: failure.clone(), ..cell(name) }));
            }
        }
        let mut ledger = open(ledger);
        ledger.cells = cells;
        let replayed = governed.guard.iter().flat_map(|guard| guard.replayed().to_vec());
        ledger.notices.extend(replayed.map(|text| Notice::Other { text }));
        governed
    }

    /// Takes the guard, and tries whether a governor can be set at all: the present one.
    fn take(&mut self, plan: &Plan) -> Result<Policy, Error> {
        if plan.governors == Governors::AsFound {
            return Ok(Policy::default());
        }
        let cpus: Vec<usize> = self.cpu.into_iter().collect();
        let policy = self.cpufreq.policies_of(&cpus)?.into_iter().next().unwrap_or_default();
        let mut guard = self.cpufreq.guard(&cpus, Wait::AtMost(PATIENCE))?;
        if let Some(present) = &policy.governor {
            guard.set_governor(present)?;
        }
        self.guard = Some(guard);
        Ok(policy)
    }

    /// Puts the policy under this governor, `userspace` at the highest speed.
    fn set(&mut self, governor: &str) -> Result<(), Error> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        guard.set_governor(governor)?;
        if governor == "userspace" {
            let cpus: Vec<usize> = self.cpu.into_iter().collect();
            let max = self.cpufreq.policies_of(&cpus)?.iter().filter_map(|policy| policy.max_khz).min();
            max.map_or(Ok(()), |khz| guard.set_speed_khz(khz))?;
        }
        Ok(())
    }

    fn raise_threads(&mut self) -> Result<Vec<String>, Error> {
        match (&mut self.guard, self.thread_priority) {
            (Some(guard), Some(priority)) => {
                Ok(guard.raise_governor_threads(priority)?.iter().map(|thread| thread.name.clone()).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn policy(&self) -> Option<Policy> {
        let cpu = self.cpu?;
        self.cpufreq.policies_of(&[cpu]).ok()?.into_iter().next()
    }

    fn put_back(self, ledger: &Shared) {
        for left in self.guard.map(GovernorGuard::restore).unwrap_or_default() {
            let what = format!("policy{} {}", left.setting.policy, left.setting.attribute);
            let notice = Notice::NotRestored { what, why: left.why.clone(), remedy: left.remedy() };
            open(ledger).notices.push(notice);
        }
    }
}

/// That no governor could be set, which is no failure where there is none.
fn nothing_set(error: &Error) -> Notice {
    match error {
        Error::NotExposed { why, .. } => Notice::Other {
            text: format!(
                "CPU frequency is not exposed here: {why}. Nothing can be set from inside; the loops ran at whatever speed the \
                 machine gave them, and what varies in them is its doing."
            ),
        },
        _ => refused(AS_FOUND, "all in turn", error),
    }
}

fn rounds(plan: &Plan, ledger: &Shared, stage: &Stage, governed: &mut Governed) {
    let full =
        governed.guard.is_some() && governed.policy().is_some_and(|p| p.governors.iter().any(|g| g == "performance"));
    if full && let Err(error) = governed.set("performance") {
        open(ledger).error = Some(error);
        return;
    }
    Work::warm_up(WARM_UP);
    let work = Work::calibrate(plan.work);
    let cells = {
        let mut ledger = open(ledger);
        ledger.steps = work.steps;
        ledger.cells.len()
    };
    let begin = now_ns(Clock::Monotonic);
    let mut recorder = Recorder::new();
    let mut durations = Vec::with_capacity(plan.loops as usize);
    for round in 0..plan.rounds {
        for cell in 0..cells {
            let Some(subject) = open_cell(ledger, cell) else { continue };
            let turns = (plan.rounds as usize * cells) as u32;
            let turn = round * cells as u32 + cell as u32;
            let each = plan.rest + plan.work.saturating_mul(plan.loops);
            let doing = format!("{}, round {} of {}", subject.as_deref().unwrap_or(AS_FOUND), round + 1, plan.rounds);
            let done = f64::from(turn) / f64::from(turns.max(1));
            if !stage.pause(Progress { doing, done, left: each.saturating_mul(turns - turn) }) {
                return;
            }
            let started = (now_ns(Clock::Monotonic) - begin).unsigned_abs();
            let prepared = prepare(governed, subject.as_deref(), ledger, cell);
            if let Err(error) = prepared {
                open(ledger).cells[cell].failure = Some((error.to_string(), Some(error.remedy())));
                continue;
            }
            std::thread::sleep(plan.rest);
            let before = governed.policy().and_then(|policy| policy.transitions);
            let meter = Meter::start();
            durations.clear();
            while durations.len() < plan.loops as usize && !linux::stop::requested() {
                durations.push(work.timed().1);
            }
            let used = meter.stop();
            if durations.len() < plan.loops as usize {
                return;
            }
            let now = governed.policy();
            let after = now.as_ref().and_then(|policy| policy.transitions);
            let ended_khz = now.and_then(|policy| policy.current_khz);
            recorder.clear();
            durations.iter().for_each(|&ns| recorder.record(ns));
            let cell = &mut open(ledger).cells[cell];
            cell.tally.add_round(round, started, &recorder, used);
            cell.rounds.push(durations.clone());
            cell.ended_khz.push(ended_khz);
            cell.usage.add(used);
            cell.transitions.push(before.zip(after).map(|(before, after)| after.saturating_sub(before)));
        }
    }
}

/// The governor of a cell that has not failed. `None`: it has.
fn open_cell(ledger: &Shared, cell: usize) -> Option<Option<String>> {
    let ledger = open(ledger);
    let cell = &ledger.cells[cell];
    cell.failure.is_none().then(|| cell.governor.clone())
}

fn prepare(governed: &mut Governed, governor: Option<&str>, ledger: &Shared, cell: usize) -> Result<(), Error> {
    if let Some(governor) = governor {
        governed.set(governor)?;
    }
    let raised = governed.raise_threads()?;
    let facts = governed.policy().zip(governed.cpu).map(|(policy, cpu)| Facts::read(&governed.cpufreq, &policy, cpu));
    let mut ledger = open(ledger);
    for name in raised {
        if !ledger.raised.contains(&name) {
            ledger.raised.push(name);
        }
    }
    if let Some(facts) = facts {
        ledger.cells[cell].facts = facts;
    }
    Ok(())
}
