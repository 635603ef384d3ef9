//! The rounds of an observed run: what was counted in consecutive stretches of time. Their scatter is the noise of a comparison.
//!
//! A stretch is short at first. When there are many, two become one, and the next ones last twice as long. So short programs have rounds
//! too, and long ones have few.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_linux::call_table::{Counted, Totals};

use super::delta::Delta;

/// The first stretches.
const SHORTEST: Duration = Duration::from_millis(25);
/// Most rounds.
const MOST: usize = 32;

/// What was counted in one stretch, by the entry's place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Round {
    /// Since the program was started.
    pub(super) began: Duration,
    pub(super) deltas: BTreeMap<usize, Delta>,
}

/// The rounds so far.
#[derive(Debug)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    last: Totals,
    last_at: Duration,
    length: Duration,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self { rounds: Vec::new(), last: Totals::default(), last_at: Duration::ZERO, length: SHORTEST }
    }

    /// Until the next reading.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Takes what was counted by now.
    pub(super) fn take(&mut self, totals: Totals, at: Duration) {
        let none = Counted::default();
        let mut deltas = BTreeMap::new();
        for (place, after) in totals.entries.iter().enumerate() {
            let delta = Delta::between(self.last.entries.get(place).unwrap_or(&none), after);
            if !delta.is_empty() {
                deltas.insert(place, delta);
            }
        }
        self.rounds.push(Round { began: self.last_at, deltas });
        (self.last, self.last_at) = (totals, at);
        if self.rounds.len() > MOST {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.length = self.length.saturating_mul(2);
        let all = std::mem::take(&mut self.rounds);
        for pair in all.chunks(2) {
            let mut round = pair[0].clone();
            for (place, delta) in pair[1..].iter().flat_map(|next| &next.deltas) {
                round.deltas.entry(*place).or_default().add(delta);
            }
            self.rounds.push(round);
        }
    }

    /// The last reading, and the rounds in which something was counted.
    pub(super) fn end(self) -> (Totals, Vec<Round>) {
        let rounds = self.rounds.into_iter().filter(|round| !round.deltas.is_empty()).collect();
        (self.last, rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(calls: u64) -> Totals {
        let entry = Counted { calls, ended: [0, calls, 0, 0], ..Counted::default() };
        Totals { attached: 1, uncounted: 0, entries: vec![entry] }
    }

    #[test]
    fn rounds_stay_few_and_lose_nothing() {
        let mut rounds = Rounds::new();
        for n in 1..=300_u32 {
            let length = rounds.length();
            rounds.take(totals(u64::from(n) * 3), length * n);
            assert!(rounds.rounds.len() <= MOST);
        }
        assert!(rounds.length() > SHORTEST * 16);
        let (last, rounds) = rounds.end();
        assert_eq!(last.entries[0].calls, 900);
        assert_eq!(rounds.iter().map(|round| round.deltas[&0].calls).sum::<u64>(), 900);
        assert!(rounds.windows(2).all(|two| two[0].began < two[1].began));
    }

    #[test]
    fn a_stretch_without_calls_is_no_round() {
        let mut rounds = Rounds::new();
        for (n, calls) in (1..).zip([0, 5, 5, 7]) {
            rounds.take(totals(calls), SHORTEST * n);
        }
        let counted: Vec<u64> = rounds.end().1.iter().map(|round| round.deltas[&0].calls).collect();
        assert_eq!(counted, [5, 2]);
    }
}
