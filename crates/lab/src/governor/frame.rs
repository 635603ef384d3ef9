//! What the frequency experiments share: one thread on one CPU under its conditions, findings that outlive it, and what is told of both.
//!
//! An experiment is a plan with a [`Thread`] in it, figures of its own (`F`), and a function that fills them on the stage. Everything that holds for all
//! of them (what was refused, the watchdog, what could not be put back) is done and reported here, once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::cpufreq::{GovernorGuard, Wait};
use punctual::{Conditions, CpuSet, Guard, Limits, Policy, Watchdog};
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{ConditionSet, NotMeasured, Notice};

use super::Error;
use super::under::governor_lost;
use crate::breaks::{Look, Stretch};
use crate::left_out::{LeftOut, NotKept, Spoilt};
use crate::session;
use crate::stage::Stage;
use crate::variant::Variant;
use crate::{Place, Session, Unmet};

/// Longest wait for another program that holds the settings: it may be about to end.
pub(super) const PATIENCE: Wait = Wait::AtMost(Duration::from_secs(2));

/// What an experiment does before and between its rounds: it takes settings over, warms the CPU up and calibrates its work.
pub(super) const PREPARES: Duration = Duration::from_secs(2);

/// The looping thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Its CPU; none: the last one that this process may use.
    pub cpu: Option<usize>,
    /// Its policy; none: as found.
    pub policy: Option<Policy>,
    /// A refused condition is an error.
    pub require: bool,
}

impl Thread {
    /// Label of its conditions.
    pub(super) fn label(&self) -> String {
        Variant::of(Conditions { policy: self.policy, ..Conditions::default() }).label
    }

    /// The CPU it runs on. `None`: the kernel does not tell which there are.
    #[must_use]
    pub fn its_cpu(&self) -> Option<usize> {
        self.cpu.or_else(|| Conditions::inspect().cpus.and_then(|cpus| cpus.iter().last()))
    }

    fn conditions(&self, cpu: Option<usize>) -> Conditions {
        let cpus = cpu.map(|cpu| CpuSet::of([cpu]));
        Conditions { policy: self.policy, cpus, one_way: true, ..Conditions::default() }
    }

    /// Whether the kernel lets it hold its CPU only so long without a break.
    pub(super) fn is_real_time(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_real_time)
    }
}

/// What an experiment has found so far; it can be read even if the measuring thread had to be left behind.
#[derive(Debug, Default)]
pub(super) struct Findings<F> {
    pub(super) cpu: Option<usize>,
    applied: Option<punctual::Applied>,
    pub(super) refused: Vec<punctual::Refused>,
    pub(super) notices: Vec<Notice>,
    left_out: LeftOut,
    /// The condition whose loss ended the experiment, because the caller insists on it.
    not_kept: Option<NotKept>,
    guest_cpus: Option<u32>,
    /// It ended the experiment.
    pub(super) error: Option<punctual::cpufreq::Error>,
    pub(super) figures: F,
}

/// The findings, shared with the measuring thread.
#[derive(Debug, Default)]
pub(super) struct Ledger<F>(Arc<Mutex<Findings<F>>>);

impl<F> Clone for Ledger<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: Default> Ledger<F> {
    pub(super) fn open(&self) -> MutexGuard<'_, Findings<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `experiment` done by the calling thread, on its CPU and under its policy; not at all where a condition is refused that is required.
    pub(super) fn under_conditions(
        &self,
        thread: &Thread,
        cpu: Option<usize>,
        experiment: impl FnOnce(&mut Vigil<'_, F>),
    ) {
        // Before the policy is applied, so that the watchdog does not inherit it.
        let real_time = thread.policy.filter(|_| thread.is_real_time());
        let watchdog = real_time.and_then(|policy| Watchdog::over_this_thread(policy, Limits::default()).ok());
        let guard = thread.conditions(cpu).apply();
        {
            let mut findings = self.open();
            findings.cpu = cpu;
            findings.applied = Some(guard.applied().clone());
            findings.refused = guard.refused().to_vec();
        }
        let mut vigil = Vigil { ledger: self, guard, require: thread.require, label: thread.label() };
        if !thread.require || vigil.guard.refused().is_empty() {
            experiment(&mut vigil);
        }
        let left = vigil.guard.restore();
        self.open().notices.extend(left.iter().map(session::not_restored));
        if let Some(tripped) = watchdog.as_ref().and_then(Watchdog::tripped) {
            let busy_ns = tripped.busy.as_nanos() as u64;
            self.open().notices.push(Notice::WatchdogTripped { conditions: thread.label(), busy_ns });
        }
    }

    /// Puts the settings back and notes what could not be.
    pub(super) fn put_back(&self, guard: Option<GovernorGuard>) {
        let left = guard.map(GovernorGuard::restore).unwrap_or_default();
        self.open().notices.extend(left.iter().map(settings_left));
    }
}

/// Sees to it that what is measured counts only if the thread's conditions held and time did not break.
pub(super) struct Vigil<'a, F> {
    ledger: &'a Ledger<F>,
    guard: Guard,
    require: bool,
    label: String,
}

/// What is to be done with what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts.
    Counts,
    /// It does not.
    LeftOut,
    /// It does not, and nothing more is to be measured.
    Over,
}

impl<F: Default> Vigil<'_, F> {
    /// Before something is measured: sets again what was lost.
    pub(super) fn begin(&mut self) -> Look {
        let lost = self.guard.lost();
        if !lost.is_empty() {
            // What is refused is still lost, as will be seen.
            let _ = self.guard.renew(&lost);
        }
        Look::now()
    }

    /// After something was measured. `governor`: the one set for it, where another program changed it.
    pub(super) fn end(
        &self,
        before: &Look,
        (expected_ns, largest_ns): (u64, i64),
        governor: Option<(&str, (usize, String))>,
    ) -> Verdict {
        let took_ns = now_ns(Clock::Monotonic) - before.at_ns;
        let after = Look::after(took_ns.saturating_sub_unsigned(expected_ns), Look::now);
        let mut lost: Vec<NotKept> = self.guard.lost().iter().map(|its| NotKept::of(&self.label, its)).collect();
        lost.extend(governor.map(|(set, (policy, found))| governor_lost(&self.label, set, policy, &found)));
        let mut findings = self.ledger.open();
        let stretch = Stretch { expected_ns, largest_ns, guest_cpus: findings.guest_cpus };
        let why = match lost.first() {
            Some(_) => Spoilt::Lost(lost.clone()),
            None => match stretch.broken(before, &after) {
                Some(broken) => Spoilt::Broken(broken),
                None => return Verdict::Counts,
            },
        };
        findings.left_out.add(&why, after.at_ns);
        if self.require && !lost.is_empty() {
            findings.not_kept = Some(lost.swap_remove(0));
            return Verdict::Over;
        }
        Verdict::LeftOut
    }
}

/// The notice of a setting that could not be put back.
pub(super) fn settings_left(left: &punctual::cpufreq::NotRestored) -> Notice {
    let what = format!("policy{} {}", left.setting.policy, left.setting.attribute);
    Notice::NotRestored { what, why: left.why.clone(), remedy: left.remedy() }
}

/// Runs an experiment on the stage, and tells the session what holds for every one. What it found remains for the experiment to report.
pub(super) fn run<F: Default + Send + 'static>(
    thread: &Thread,
    at_most: Duration,
    session: &mut Session<'_>,
    experiment: impl FnOnce(&Stage, &Ledger<F>) + Send + 'static,
) -> Result<Findings<F>, Error> {
    let ledger: Ledger<F> = Ledger::default();
    let host = session.host();
    ledger.open().guest_cpus = host.hypervisor.as_ref().and(host.cpus_online);
    session.perform(Place::on_cpu(thread.its_cpu(), thread.is_real_time()), {
        let ledger = ledger.clone();
        move |stage| {
            stage.announce(at_most);
            experiment(stage, &ledger);
        }
    })?;
    let mut findings = std::mem::take(&mut *ledger.open());
    if let Some(error) = findings.error.take() {
        return Err(error.into());
    }
    let refusals: Vec<_> = findings.refused.iter().map(session::refusal).collect();
    if let (true, Some(r)) = (thread.require, refusals.first().cloned()) {
        return Err(Unmet::refused(r).into());
    }
    let label = thread.label();
    for refusal in &refusals {
        session.notice(Notice::ConditionRefused { conditions: label.clone(), refusal: refusal.clone() });
    }
    std::mem::take(&mut findings.left_out).tell(session);
    if findings.not_kept.is_some() {
        session.incomplete();
    }
    std::mem::take(&mut findings.notices).into_iter().for_each(|notice| session.notice(notice));
    if let Some(applied) = &findings.applied {
        session.add_conditions(ConditionSet {
            label,
            asked: session::asked(&thread.conditions(findings.cpu)),
            applied: session::applied(applied),
            refused: refusals,
        });
    }
    Ok(findings)
}

impl<F> Findings<F> {
    /// The error of a condition that was lost and is required, once everything else is reported.
    pub(super) fn met(&self) -> Result<(), Error> {
        self.not_kept.clone().map_or(Ok(()), |lost| Err(Unmet::Lost(lost).into()))
    }
}

/// A subject that could not be measured.
pub(super) fn not_measured(experiment: &str, subject: &str, why: String, remedy: Option<String>) -> NotMeasured {
    let (experiment, subject) = (experiment.to_owned(), subject.to_owned());
    NotMeasured { experiment, subject, conditions: None, parameters: BTreeMap::new(), why, remedy }
}
