//! The plan of a switch.

use std::time::Duration;

use crate::governor::{PlanError, Thread};

/// Longest run that is begun without a word.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// What one switch takes: loops before and after it, and a rest.
pub(super) const EACH: Duration = Duration::from_millis(80);

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The two governors; none: the lowest and the fastest that the policy offers.
    pub governors: Option<[String; 2]>,
    /// Switches each way per round.
    pub switches: u32,
    /// Rounds.
    pub rounds: u32,
    /// The thread that loops.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) governors: [String; 2],
    pub(super) switches: u32,
    pub(super) rounds: u32,
    pub(super) thread: Thread,
    /// How long all of it may take.
    pub(super) at_most: Duration,
}

impl Plan {
    /// Checks what is wanted.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        let Wanted { governors, switches, rounds, thread } = wanted;
        if switches == 0 {
            return Err(PlanError::None("--switches"));
        }
        if rounds == 0 {
            return Err(PlanError::None("--rounds"));
        }
        let whole = EACH.saturating_mul(2).saturating_mul(switches).saturating_mul(rounds);
        if whole > LONGEST_UNASKED {
            return Err(PlanError::Endless(whole));
        }
        let governors = governors.unwrap_or_else(|| ["powersave".into(), "performance".into()]);
        Ok(Self { governors, switches, rounds, thread, at_most: whole + super::super::frame::PREPARES })
    }

    /// A direction in words.
    pub(super) fn subject(&self, to: usize) -> String {
        format!("{} to {}", self.governors[1 - to], self.governors[to])
    }
}
