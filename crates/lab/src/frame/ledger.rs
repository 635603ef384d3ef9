//! The measurements so far, shared between the measuring thread and the thread that reports ([`Ledger`]): the batches that do not count
//! ([`LeftOut`]), and the conditions of a run, applied and put back, with the record's view of them: requested, applied, refused and not
//! restored, in words and as code. Results survive even if the measuring thread must be left behind.

use std::collections::BTreeSet;

use punctual::NotRestored;
use punctual::conditions::{Applied, CONDITIONS, Condition, Conditions, Guard, Refused};
use punctual_record::remedy::{self, param, phrase};
use punctual_record::{Ask, Causes, ConditionSet, Hint, Notice, Refusal, SeriesTally, Setting};

use super::breaks::{Break, NotKept, Spoilt};
use super::error::{Error, Failure, Unavailable};
use super::figures::Sum;
use super::plan::{Request, Variant};
use super::session::Session;
use super::stage::Shared;

/// The measurements so far. They can be reported even if the experiment must be left behind.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The samples of each cell.
    pub(crate) tallies: Vec<SeriesTally>,
    /// Per cell: why it was given up, or why the run ended.
    pub(crate) failures: Vec<Option<Failure>>,
    /// Per variant: the conditions that held after it was applied.
    pub(crate) held: Vec<Option<Held>>,
    /// Notices for the reader of the figures.
    pub(crate) notices: Vec<Notice>,
    /// The usage of the measured thread itself.
    pub(crate) own: Sum,
    /// The batches that do not count.
    pub(crate) left_out: LeftOut,
    /// Cells that lost a batch to a break in time.
    pub(crate) broken: BTreeSet<usize>,
    /// The condition whose loss ended the run, because the caller requires it.
    pub(crate) not_kept: Option<NotKept>,
    /// Number of CPUs, on a virtual machine only.
    pub(crate) guest_cpus: Option<u32>,
    /// When a participating process ended too early, on `CLOCK_MONOTONIC`.
    pub(crate) ended_ns: i64,
    /// Whether every round was run.
    pub(crate) complete: bool,
    /// Why the measuring thread woke up late, where it was watched.
    pub(crate) causes: Option<Causes>,
}

/// The result of applying a variant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// The conditions that hold, as read back from the kernel.
    pub(crate) applied: Conditions,
    /// The conditions that the kernel refused.
    pub(crate) refused: Vec<Refused>,
    /// The variant was left out: the refusal made it equal to another one.
    pub(crate) left_out: bool,
}

impl Shared<Ledger> {
    /// Applies the base conditions to the calling thread. The thread ends with the experiment, and takes with it whatever
    /// cannot be restored.
    pub(crate) fn apply(&self, base: &Conditions) -> Applied {
        let applied = base.clone().allow_irreversible().apply();
        let notes = applied.guard.notes().iter().map(|text| Notice::Other { text: text.clone() });
        notes.for_each(|note| self.open().notice(note));
        applied
    }

    /// Restores conditions.
    pub(crate) fn put_back(&self, guard: Guard) {
        self.not_restored(&guard.restore());
    }

    /// What could not be restored becomes a notice.
    pub(crate) fn not_restored(&self, left: &[NotRestored]) {
        left.iter().for_each(|left| self.open().notice(not_restored(left)));
    }
}

impl Ledger {
    /// A new ledger for the cells and variants of a run.
    pub(crate) fn new(session: &Session<'_>, cells: usize, variants: usize) -> Shared<Self> {
        let host = session.host();
        Shared::new(Self { guest_cpus: host.hypervisor.as_ref().and(host.cpus_online), ..Self::empty(cells, variants) })
    }

    /// Adds a notice, unless it is there already.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// An empty ledger for these numbers of cells and variants.
    pub(crate) fn empty(cells: usize, variants: usize) -> Self {
        Self {
            tallies: (0..cells).map(|_| SeriesTally::new()).collect(),
            failures: vec![None; cells],
            held: vec![None; variants],
            ..Self::default()
        }
    }

    /// Enters the conditions in the session. The error is the first required condition that did not hold. The
    /// measurements are reported even then.
    pub(crate) fn report(
        &self,
        request: &Request,
        base_refused: &[Refused],
        session: &mut Session<'_>,
    ) -> Result<(), Error> {
        let mut unmet: Option<Error> = None;
        for (variant, held) in request.variants.iter().zip(&self.held) {
            let Some(held) = held else { continue };
            let refused: Vec<Refused> = held.refused.iter().chain(base_refused).cloned().collect();
            let set = condition_set(&variant.over(&request.base), &held.applied, &refused);
            for refusal in &set.refused {
                let (conditions, refusal) = (variant.label.clone(), refusal.clone());
                match (request.require, held.left_out) {
                    (true, _) => drop(unmet.get_or_insert(Error::Refused(refusal))),
                    (_, true) => session.notice(Notice::ConditionsSkipped { conditions, refusal }),
                    (_, false) => session.notice(Notice::ConditionRefused { conditions, refusal }),
                }
            }
            session.add_conditions(ConditionSet { label: variant.label.clone(), ..set });
        }
        let base_refused =
            base_refused.first().filter(|_| request.require).map(|refused| Error::Refused(refusal(refused)));
        let lost = self.not_kept.clone().map(Error::Lost);
        if lost.is_some() {
            session.incomplete();
        }
        unmet.or(base_refused).or(lost).map_or(Ok(()), Err)
    }

    /// Gives up each cell that was tried and has no batch that counts, with the reason. `label`: the variant of a
    /// cell.
    pub(crate) fn give_reasons<'l>(&mut self, label: impl Fn(usize) -> &'l str) {
        let Self { tallies, failures, left_out, broken, not_kept, .. } = self;
        for (cell, tally) in tallies.iter().enumerate() {
            if tally.count() > 0 || failures[cell].is_some() {
                continue;
            }
            let ended = not_kept.as_ref().map(|lost| {
                Unavailable::but(format!("the run ended before: {} was lost", lost.condition), lost.remedy.clone())
            });
            let lost = || left_out.lost_of(label(cell)).map(lost_again_and_again);
            let broken = || broken.contains(&cell).then(broken_again_and_again);
            failures[cell] = ended.or_else(lost).or_else(broken).map(Failure::Impossible);
        }
    }
}

/// Why a subject could not be measured under a condition that was lost in every batch.
fn lost_again_and_again(lost: &NotKept) -> Unavailable {
    let why = format!("{} was set to {}, and was {} again and again", lost.condition, lost.set, lost.found);
    Unavailable::but(why, lost.remedy.clone())
}

/// Why a subject has no samples when time broke in every batch.
fn broken_again_and_again() -> Unavailable {
    Unavailable::but(
        "the wall clock was set, or the measurement stood still, again and again",
        Hint::from("repeat when neither happens, or ").and(Ask::MoreTime),
    )
}

/// All batches of a run that were left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    lost: Vec<(NotKept, u32)>,
    broken: Vec<(Break, Seen)>,
}

/// The breaks of one kind: the first one and their number.
#[derive(Debug, Clone, Copy)]
struct Seen {
    first_ns: i64,
    times: u32,
}

impl LeftOut {
    /// Adds a batch that was left out at this moment on `CLOCK_MONOTONIC`.
    pub(crate) fn add(&mut self, why: &Spoilt, at_ns: i64) {
        match why {
            Spoilt::Lost(all) => all.iter().for_each(|lost| self.add_lost(lost)),
            Spoilt::Broken(broken) => self.add_break(*broken, at_ns),
        }
    }

    fn add_lost(&mut self, lost: &NotKept) {
        match self.lost.iter_mut().find(|(known, _)| known.is_as(lost)) {
            Some((_, times)) => *times += 1,
            None => self.lost.push((lost.clone(), 1)),
        }
    }

    fn add_break(&mut self, broken: Break, at_ns: i64) {
        let kind = |broken: &Break| match broken {
            Break::Stepped { .. } => None,
            Break::Paused { cause, .. } => Some(*cause),
        };
        let same = |known: &Break| kind(known) == kind(&broken);
        let Some((sum, seen)) = self.broken.iter_mut().find(|(known, _)| same(known)) else {
            self.broken.push((broken, Seen { first_ns: at_ns, times: 1 }));
            return;
        };
        seen.times += 1;
        match (sum, broken) {
            // Signed steps forward and back would cancel out.
            (Break::Stepped { by_ns }, Break::Stepped { by_ns: more }) if more.abs() > by_ns.abs() => *by_ns = more,
            (Break::Paused { gap_ns, .. }, Break::Paused { gap_ns: more, .. }) => *gap_ns = gap_ns.saturating_add(more),
            _ => {}
        }
    }

    /// The first lost condition of the condition set `label`.
    pub(crate) fn lost_of(&self, label: &str) -> Option<&NotKept> {
        self.lost.iter().map(|(lost, _)| lost).find(|lost| lost.conditions == label)
    }

    /// A break in time, if there was one.
    #[cfg(test)]
    pub(crate) fn last_break(&self) -> Option<Break> {
        self.broken.last().map(|(broken, _)| *broken)
    }

    /// Enters all of it in the session.
    pub(crate) fn tell(self, session: &mut Session<'_>) {
        for (lost, left_out) in self.lost {
            let NotKept { conditions, condition, set, found, remedy: _ } = lost;
            session.notice(Notice::ConditionNotKept { conditions, condition, set, found, left_out });
        }
        for (broken, Seen { first_ns, times }) in self.broken {
            let after_ns = session.time_of(first_ns);
            session.notice(match broken {
                Break::Stepped { by_ns } => Notice::ClockStepped { by_ns, after_ns, times },
                Break::Paused { cause, gap_ns } => Notice::Paused { cause, gap_ns, after_ns, times },
            });
        }
    }
}

/// A setting for each condition that was requested or could be read, in the order of the table.
fn settings(asked: &Conditions, held: &Conditions) -> Vec<Setting> {
    let setting = |condition: &Condition| {
        let (asked, held) = (asked.value(*condition), held.value(*condition));
        Some(Setting {
            condition: condition.name().to_owned(),
            asked: asked.map(param),
            applied: held.map(param),
            phrase: phrase(held.or(asked)?),
        })
    };
    CONDITIONS.iter().filter_map(setting).collect()
}

/// The set of these conditions: requested, as they hold, and refused.
#[must_use]
pub fn condition_set(asked: &Conditions, held: &Conditions, refused: &[Refused]) -> ConditionSet {
    let label = Variant::new(asked.clone()).label;
    ConditionSet { label, settings: settings(asked, held), refused: refused.iter().map(refusal).collect() }
}

/// The record's view of a refusal.
fn refusal(refused: &Refused) -> Refusal {
    Refusal {
        condition: refused.condition.to_string(),
        asked: refused.value(),
        why: refused.why.clone(),
        remedy: remedy::of_refused(refused),
    }
}

/// The record's view of a condition that could not be restored.
pub(crate) fn not_restored(left: &NotRestored) -> Notice {
    Notice::NotRestored {
        what: format!("{} (it was {})", left.what, left.was),
        why: left.why.clone(),
        remedy: remedy::of_need(&left.needs).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::{CpuSet, Policy};
    use punctual_record::{Param, PauseCause, Run};

    use super::*;
    use crate::frame::{Silent, Stop};

    fn not_kept(conditions: &str, found: &str) -> NotKept {
        let [condition, set] = ["timer-slack", "1ns"].map(str::to_owned);
        let remedy = "leave it alone".into();
        NotKept { conditions: conditions.into(), condition, set, found: found.into(), remedy }
    }

    fn told(left_out: LeftOut) -> Run {
        let mut observer = Silent;
        let mut session = Session::open(vec!["punctual".into()], "pretend", Stop::default(), &mut observer);
        left_out.tell(&mut session);
        session.close()
    }

    fn stopped(gap_ns: u64) -> Break {
        Break::Paused { cause: PauseCause::Stopped, gap_ns }
    }

    #[test]
    fn what_was_lost_is_counted_by_label_and_setting() {
        let mut left_out = LeftOut::default();
        for (label, found) in [("a", "50us"), ("a", "60us"), ("b", "50us")] {
            left_out.add(&Spoilt::Lost(vec![not_kept(label, found)]), 0);
        }
        assert_eq!(left_out.lost_of("a").map(|lost| lost.found.as_str()), Some("50us"), "the first");
        assert!(left_out.lost_of("c").is_none() && left_out.last_break().is_none());
        let times = |notice: &Notice| match notice {
            Notice::ConditionNotKept { left_out, .. } => Some(*left_out),
            _ => None,
        };
        assert_eq!(told(left_out).notices.iter().filter_map(times).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn steps_are_not_added_up_and_pauses_are() {
        let mut left_out = LeftOut::default();
        for (broken, at_ns) in [
            (Break::Stepped { by_ns: 5_000 }, i64::MAX - 1),
            (Break::Stepped { by_ns: -7_000 }, i64::MAX),
            (stopped(3), 0),
            (stopped(4), 0),
        ] {
            left_out.add(&Spoilt::Broken(broken), at_ns);
        }
        assert_eq!(left_out.last_break(), Some(stopped(7)));
        let notices = told(left_out).notices;
        assert!(
            notices.iter().any(|notice| matches!(notice, Notice::ClockStepped { by_ns: -7_000, times: 2, .. })),
            "{notices:?}"
        );
        let stopped = Notice::Paused { cause: PauseCause::Stopped, gap_ns: 7, after_ns: 0, times: 2 };
        assert!(notices.contains(&stopped), "{notices:?}");
    }

    #[test]
    fn what_happens_again_and_again_is_a_reason_with_a_remedy() {
        let lost = lost_again_and_again(&not_kept("a", "50us"));
        assert_eq!(lost.why, "timer-slack was set to 1ns, and was 50us again and again");
        assert_eq!(lost.remedy, Some("leave it alone".into()));
        let broken = broken_again_and_again();
        assert!(broken.why.contains("stood still") && broken.remedy.is_some());
    }

    #[test]
    fn each_condition_that_is_known_has_its_value_and_its_words() {
        let asked = Conditions::new().policy(Policy::Fifo(40)).timer_slack(Duration::from_nanos(1)).lock_memory();
        let held = asked.clone().cpus(&CpuSet::from_iter([3])).nice(5).without(Condition::TIMER_SLACK);
        let all = settings(&asked, &held);
        let shown: Vec<_> = all.iter().map(|setting| (setting.condition.as_str(), setting.phrase.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("policy", "SCHED_FIFO 40"),
                ("nice", "nice 5"),
                ("cpu", "CPU 3"),
                ("timer-slack", "slack 1 ns"),
                ("lock-memory", "memory locked")
            ]
        );
        let values = |name: &str| {
            all.iter()
                .find(|setting| setting.condition == name)
                .map(|found| (found.asked.clone(), found.applied.clone()))
        };
        assert_eq!(values("nice"), Some((None, Some(Param::Int(5)))));
        assert_eq!(values("cpu"), Some((None, Some(Param::Text("3".into())))));
        assert_eq!(values("timer-slack"), Some((Some(Param::Int(1)), None)), "asked, and not to be read");
        assert_eq!(values("lock-memory"), Some((Some(Param::Flag(true)), Some(Param::Flag(true)))));
    }
}
