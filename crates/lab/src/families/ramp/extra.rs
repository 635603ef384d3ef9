//! Facts about a governor beside the durations of its loops.

use super::facts::Facts;
use super::loops::Loop;
use crate::frame::figures::middle;

/// The results of its turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// Round after round, every loop in order.
    pub(super) rounds: Vec<Vec<Loop>>,
    /// Number of frequency changes during the loops, per round, if the kernel counts them.
    pub(super) transitions: Vec<Option<u64>>,
    /// The frequency after the last loop, per round, if the kernel reports it.
    pub(super) ended_khz: Vec<Option<u64>>,
    pub(super) facts: Facts,
    pub(super) steps: u64,
    /// The governor's threads that got a higher priority.
    pub(super) raised: Vec<String>,
}

impl Extra {
    /// The duration of each loop, in order.
    pub(super) fn durations(&self) -> impl Iterator<Item = Vec<i64>> {
        self.rounds.iter().map(|round| round.iter().map(|its| its.ns).collect())
    }

    /// The interruptions of the loops: the share of loops interrupted, and the median time lost by those.
    pub(super) fn interruptions(&self) -> (Option<f64>, Option<i64>) {
        let taken: Option<Vec<i64>> = self.rounds.iter().flatten().map(|its| its.taken_ns).collect();
        let Some(taken) = taken.filter(|all| !all.is_empty()) else { return (None, None) };
        let interrupted: Vec<i64> = taken.iter().copied().filter(|ns| *ns > 0).collect();
        (Some(interrupted.len() as f64 / taken.len() as f64), middle(&interrupted))
    }

    /// A loop at the speed that the governor settles at: the median of the later halves of its rounds.
    pub(super) fn settled_ns(&self) -> Option<i64> {
        middle(&self.rounds.iter().flat_map(|round| &round[round.len() / 2..]).map(|its| its.ns).collect::<Vec<_>>())
    }

    /// The median over the rounds of the picked value.
    pub(super) fn middle_of(&self, pick: impl Fn(&[i64]) -> Option<i64>) -> Option<i64> {
        middle(&self.durations().filter_map(|round| pick(&round)).collect::<Vec<_>>())
    }
}
