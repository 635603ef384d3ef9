//! Batches that do not count, because a condition was lost or time broke.

use punctual::conditions::Lost;
use punctual_record::Notice;

use super::breaks::Break;

use super::session::Session;
use super::unavailable::Unavailable;

/// A condition that was set and did not hold during a measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} was set to {set}, and was found to be {found} while measuring; {remedy}")]
pub struct NotKept {
    /// Label of the condition set.
    pub conditions: String,
    /// The condition.
    pub condition: String,
    /// The value set.
    pub set: String,
    /// The value found.
    pub found: String,
    /// The remedy.
    pub remedy: String,
}

impl NotKept {
    /// A lost condition of the condition set `label`.
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

    /// Why the subject could not be measured under this condition, with the remedy.
    pub(crate) fn again_and_again(&self) -> Unavailable {
        let why = format!("{} was set to {}, and was {} again and again", self.condition, self.set, self.found);
        Unavailable::but(why, self.remedy.clone())
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

impl Spoilt {
    /// Why a subject has no samples when every batch was left out for this reason.
    pub(crate) fn again_and_again(&self) -> Unavailable {
        match self {
            Self::Lost(lost) => lost.first().map_or_else(|| Unavailable::because(""), NotKept::again_and_again),
            Self::Broken(_) => Unavailable::but(
                "the wall clock was set, or the measurement stood still, again and again",
                "repeat when neither happens, or give more time",
            ),
        }
    }
}

/// All batches of a run that were left out.
#[derive(Debug, Default)]
pub struct LeftOut {
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
        let kind = |its: &Break| match its {
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
    #[must_use]
    pub fn lost_of(&self, label: &str) -> Option<&NotKept> {
        self.lost.iter().map(|(lost, _)| lost).find(|lost| lost.conditions == label)
    }

    /// A break in time, if there was one.
    #[must_use]
    pub fn last_break(&self) -> Option<Break> {
        self.broken.last().map(|(broken, _)| *broken)
    }

    /// Enters all of it in the session.
    pub fn tell(self, session: &mut Session<'_>) {
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

#[cfg(test)]
mod tests {
    use punctual_record::{PauseCause, Run};

    use super::*;
    use crate::frame::{Silent, Stop};

    fn not_kept(conditions: &str, found: &str) -> NotKept {
        let [condition, set, remedy] = ["timer-slack", "1ns", "leave it alone"].map(str::to_owned);
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
        let times = |its: &Notice| match its {
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
            notices.iter().any(|its| matches!(its, Notice::ClockStepped { by_ns: -7_000, times: 2, .. })),
            "{notices:?}"
        );
        let stopped = Notice::Paused { cause: PauseCause::Stopped, gap_ns: 7, after_ns: 0, times: 2 };
        assert!(notices.contains(&stopped), "{notices:?}");
    }

    #[test]
    fn what_happens_again_and_again_is_a_reason_with_a_remedy() {
        let lost = Spoilt::Lost(vec![not_kept("a", "50us")]).again_and_again();
        assert_eq!(lost.why, "timer-slack was set to 1ns, and was 50us again and again");
        assert_eq!(lost.remedy.as_deref(), Some("leave it alone"));
        let broken = Spoilt::Broken(stopped(1)).again_and_again();
        assert!(broken.why.contains("stood still") && broken.remedy.is_some());
    }
}
