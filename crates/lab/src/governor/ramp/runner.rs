//! The looping thread.

use std::time::Duration;

use punctual::cpufreq::{Cpufreq, Error, GovernorGuard, Policy, Work};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder};

use super::facts::Facts;
use super::loops::Loops;
use super::{AS_FOUND, Cell, Figures, Governors, Ledger, Plan};
use crate::governor::frame::{PATIENCE, Verdict, Vigil};
use crate::governor::under::{refused, skipped};
use crate::stage::{Progress, Stage};
use crate::usage::Meter;

/// How long the CPU is kept busy before the work is calibrated: several times what the slowest governor takes to full speed.
const WARM_UP: Duration = Duration::from_millis(100);
/// The governor that is fast at once.
const PERFORMANCE: &str = "performance";
/// Order of the governors: from the one that is fast at once to the one that never is.
const ORDER: [&str; 6] = [PERFORMANCE, "userspace", "schedutil", "ondemand", "conservative", "powersave"];

/// Does everything on the calling thread, which ends afterwards.
pub(super) fn perform(plan: &Plan, ledger: &Ledger, stage: &Stage) {
    let cpu = plan.thread.its_cpu();
    let mut governed = Governed::open(plan, cpu, ledger);
    ledger.under_conditions(&plan.thread, cpu, |vigil| rounds(plan, vigil, (ledger, stage), &mut governed));
    ledger.put_back(governed.guard);
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
    fn open(plan: &Plan, cpu: Option<usize>, ledger: &Ledger) -> Self {
        let cpufreq = Cpufreq::system();
        let mut governed = Self { cpufreq, cpu, guard: None, thread_priority: plan.thread_priority };
        let cell = |name: &String| Cell { governor: Some(name.clone()), ..Cell::default() };
        let mut cells = Vec::new();
        match (&plan.governors, governed.take()) {
            (Governors::AgainstPerformance, taken) => {
                cells.push(Cell::default());
                match performance(taken) {
                    Ok(cell) => cells.extend(cell),
                    Err(error) => ledger.open().notices.push(skipped(PERFORMANCE, &error)),
                }
            }
            (Governors::All, Ok(policy)) => {
                let mut offered = policy.governors.clone();
                offered.sort_by_key(|name| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()));
                cells.extend(offered.iter().map(cell));
            }
            (Governors::Named(names), Ok(_)) => cells.extend(names.iter().map(cell)),
            (_, Err(error)) if plan.thread.require => ledger.open().error = Some(error),
            (Governors::All, Err(error)) => {
                cells.push(Cell::default());
                ledger.open().notices.push(nothing_set(&error));
            }
            (Governors::Named(names), Err(error)) => {
                cells.push(Cell::default());
                let failure = Some((error.to_string(), Some(error.remedy())));
                cells.extend(names.iter().map(|name| Cell { failure: failure.clone(), ..cell(name) }));
            }
        }
        let mut findings = ledger.open();
        findings.figures.cells = cells;
        let replayed = governed.guard.iter().flat_map(|guard| guard.replayed().to_vec());
        findings.notices.extend(replayed.map(|text| Notice::Other { text }));
        governed
    }

    /// Takes the guard, and tries whether a governor can be set at all: the present one.
    fn take(&mut self) -> Result<Policy, Error> {
        let cpus: Vec<usize> = self.cpu.into_iter().collect();
        let policy = self.cpufreq.policies_of(&cpus)?.into_iter().next().unwrap_or_default();
        let mut guard = self.cpufreq.guard(&cpus, PATIENCE)?;
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
}

/// The governor that [`Governors::AgainstPerformance`] sets; `None`: it is what is found.
fn performance(taken: Result<Policy, Error>) -> Result<Option<Cell>, Error> {
    let found = taken?;
    if found.governor.as_deref() == Some(PERFORMANCE) {
        return Ok(None);
    }
    if !found.governors.iter().any(|offered| offered == PERFORMANCE) {
        let Policy { number: policy, governors: offered, .. } = found;
        return Err(Error::UnknownGovernor { policy, asked: PERFORMANCE.to_owned(), offered });
    }
    Ok(Some(Cell { governor: Some(PERFORMANCE.to_owned()), ..Cell::default() }))
}

/// That no governor could be set, which is no failure where there is none.
fn nothing_set(error: &Error) -> Notice {
    match error {
        Error::NotExposed { why, .. } => Notice::Other {
            text: format!(
                "CPU frequency is not exposed here: {why}. The loops ran at whatever speed the \
                 machine gave them, and what varies in them is its doing."
            ),
        },
        _ => refused(AS_FOUND, "all in turn", error),
    }
}

fn rounds(plan: &Plan, vigil: &mut Vigil<'_, Figures>, (ledger, stage): (&Ledger, &Stage), governed: &mut Governed) {
    let full =
        governed.guard.is_some() && governed.policy().is_some_and(|p| p.governors.iter().any(|g| g == PERFORMANCE));
    if full && let Err(error) = governed.set(PERFORMANCE) {
        ledger.open().error = Some(error);
        return;
    }
    Work::warm_up(WARM_UP);
    let work = Work::calibrate(plan.work);
    let cells = {
        let figures = &mut ledger.open().figures;
        figures.steps = work.steps;
        figures.cells.len()
    };
    let begin = now_ns(Clock::Monotonic);
    let mut recorder = Recorder::new();
    let loops = Loops::new(work, plan.work);
    let mut stamps = Vec::with_capacity(plan.loops as usize);
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
            let look = vigil.begin();
            let prepared = prepare(governed, subject.as_deref(), ledger, cell);
            if let Err(error) = prepared {
                ledger.open().figures.cells[cell].failure = Some((error.to_string(), Some(error.remedy())));
                continue;
            }
            std::thread::sleep(plan.rest);
            let before = governed.policy().and_then(|policy| policy.transitions);
            let meter = Meter::start();
            stamps.clear();
            while stamps.len() < plan.loops as usize && !linux::stop::requested() {
                stamps.push(loops.perform());
            }
            let used = meter.stop();
            if stamps.len() < plan.loops as usize {
                return;
            }
            let now = governed.policy();
            let after = now.as_ref().and_then(|policy| policy.transitions);
            let ended_khz = now.and_then(|policy| policy.current_khz);
            let done: Vec<_> = stamps.iter().map(|its| loops.account(its)).collect();
            recorder.clear();
            done.iter().for_each(|its| recorder.record(its.ns));
            let others = subject.as_deref().and_then(|set| Some((set, governed.guard.as_ref()?.other_governor(set)?)));
            let largest_ns = recorder.extremes().map_or(0, |(_, max)| max);
            match vigil.end(&look, (each.as_nanos() as u64, largest_ns), others) {
                Verdict::Counts => {}
                Verdict::LeftOut => continue,
                Verdict::Over => return,
            }
            let cell = &mut ledger.open().figures.cells[cell];
            cell.tally.add_round(round, started, &recorder, used);
            cell.rounds.push(done);
            cell.ended_khz.push(ended_khz);
            cell.usage.add(used);
            cell.transitions.push(before.zip(after).map(|(before, after)| after.saturating_sub(before)));
        }
    }
}

/// The governor of a cell that has not failed. `None`: it has.
fn open_cell(ledger: &Ledger, cell: usize) -> Option<Option<String>> {
    let findings = ledger.open();
    let cell = &findings.figures.cells[cell];
    cell.failure.is_none().then(|| cell.governor.clone())
}

fn prepare(governed: &mut Governed, governor: Option<&str>, ledger: &Ledger, cell: usize) -> Result<(), Error> {
    match (governor, &governed.guard) {
        (Some(governor), _) => governed.set(governor)?,
        (None, Some(guard)) => guard.rewrite_found_governor()?,
        (None, None) => {}
    }
    let raised = governed.raise_threads()?;
    let facts = governed.policy().zip(governed.cpu).map(|(policy, cpu)| Facts::read(&governed.cpufreq, &policy, cpu));
    let figures = &mut ledger.open().figures;
    for name in raised {
        if !figures.raised.contains(&name) {
            figures.raised.push(name);
        }
    }
    if let Some(facts) = facts {
        figures.cells[cell].facts = facts;
    }
    Ok(())
}
