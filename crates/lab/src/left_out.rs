//! Batches that do not count: a condition was lost, or time broke.

use punctual::conditions::Lost;
use punctual_record::{Notice, PauseCause};

use crate::Session;
use crate::breaks::Break;

/// A condition that was set and did not hold while something was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} was set to {set}, and was found to be {found} while measuring; {remedy}")]
pub struct NotKept {
    /// Label of the condition set.
    pub conditions: String,
    /// Which condition.
    pub condition: String,
    /// What was set.
    pub set: String,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

impl NotKept {
    /// A lost condition of the set of this label.
    #[must_use]
    pub fn of(conditions: &str, lost: &Lost) -> Self {
        Self {
            conditions: conditions.into(),
            condition: lost.condition.to_string(),
            set: lost.set.clone(),
            found: lost.found.clone(),
            remedy: lost.remedy().into(),
        }
    }

    /// Why something could not be measured because of it, and what to do.
    pub(crate) fn again_and_again(&self) -> (String, String) {
        let why = format!("{} was set to {}, and was {} again and again", self.condition, self.set, self.found);
        (why, self.remedy.clone())
    }

    fn is_as(&self, other: &Self) -> bool {
        (&self.conditions, &self.condition, &self.set) == (&other.conditions, &other.condition, &other.set)
    }
}

/// Why a batch does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spoilt {
    /// Conditions were lost; there is at least one.
    Lost(Vec<NotKept>),
    /// Time broke.
    Broken(Break),
}

/// All that was left out of a run.
#[derive(Debug, Default)]
pub struct LeftOut {
    lost: Vec<(NotKept, u32)>,
    broken: Vec<(Break, Seen)>,
}

/// How often a kind of break was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    first_ns: i64,
    times: u32,
}

impl LeftOut {
    /// Adds a batch that was left out at this moment on `CLOCK_MONOTONIC`.
    pub fn add(&mut self, why: &Spoilt, at_ns: i64) {
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
        let same = |known: &Break| std::mem::discriminant(known) == std::mem::discriminant(&broken);
        let Some((sum, seen)) = self.broken.iter_mut().find(|(known, _)| same(known)) else {
            self.broken.push((broken, Seen { first_ns: at_ns, times: 1 }));
            return;
        };
        seen.times += 1;
        match (sum, broken) {
            // Steps there and back would add up to nothing.
            (Break::Stepped { by_ns }, Break::Stepped { by_ns: more }) if more.abs() > by_ns.abs() => *by_ns = more,
            (Break::Suspended { gap_ns }, Break::Suspended { gap_ns: more })
            | (Break::Stopped { gap_ns }, Break::Stopped { gap_ns: more })
            | (Break::Paused { gap_ns }, Break::Paused { gap_ns: more }) => *gap_ns = gap_ns.saturating_add(more),
            _ => {}
        }
    }

    /// The first condition that was lost, of the set of this label.
    #[must_use]
    pub fn lost_of(&self, label: &str) -> Option<&NotKept> {
        self.lost.iter().map(|(lost, _)| lost).find(|lost| lost.conditions == label)
    }

    /// A break in time, if there was one.
    #[must_use]
    pub fn last_break(&self) -> Option<Break> {
        self.broken.last().map(|(broken, _)| *broken)
    }

    /// Tells the session all of it.
    pub fn tell(self, session: &mut Session<'_>) {
        for (lost, left_out) in self.lost {
            let NotKept { conditions, condition, set, found, remedy: _ } = lost;
            session.notice(Notice::ConditionNotKept { conditions, condition, set, found, left_out });
        }
        for (broken, Seen { first_ns, times }) in self.broken {
            let after_ns = session.time_of(first_ns);
            let paused = |cause, gap_ns| Notice::Paused { cause, gap_ns, after_ns, times };
            session.notice(match broken {
                Break::Stepped { by_ns } => Notice::ClockStepped { by_ns, after_ns, times },
                Break::Suspended { gap_ns } => paused(PauseCause::Suspended, gap_ns),
                Break::Stopped { gap_ns } => paused(PauseCause::Stopped, gap_ns),
                Break::Paused { gap_ns } => paused(PauseCause::Machine, gap_ns),
            });
        }
    }
}
