//! Paired comparison of two programs, turn by turn.

use std::fmt;
use std::ops::RangeInclusive;

use punctual_record::Quantile;
use punctual_record::statistics::{CONFIDENCE, Ranks, binomial_upper_tail, confidence_ranks};

use super::percentile::median;

/// One figure of each program per turn. Both of a turn were measured in direct succession, so that drift (the host's clock, its other
/// guests) affects both.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs(Vec<Pair>);

#[derive(Debug, Clone, Copy)]
struct Pair {
    ours: f64,
    theirs: f64,
}

/// A median over turns with its 95 % confidence interval, from order statistics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Middle {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It holds at both ends of the interval.
    Holds,
    /// It holds nowhere in the interval.
    Fails,
    /// Undecided within the interval: it takes more turns, or a quieter machine.
    CannotTell,
}

impl Pairs {
    pub(super) fn push(&mut self, ours: f64, theirs: f64) {
        self.0.push(Pair { ours, theirs });
    }

    pub(super) fn ours(&self) -> f64 {
        median(&mut self.0.iter().map(|p| p.ours).collect::<Vec<_>>())
    }

    pub(super) fn theirs(&self) -> f64 {
        median(&mut self.0.iter().map(|p| p.theirs).collect::<Vec<_>>())
    }

    /// Our figures divided by theirs, turn by turn.
    pub(super) fn ratio(&self) -> Middle {
        self.middle(|pair| pair.ours / pair.theirs, self.ranks())
    }

    /// The same, with an interval that holds beside this number of other comparisons: their error rates are added (Bonferroni).
    pub(super) fn ratio_among(&self, comparisons: u32) -> Middle {
        let n = self.0.len() as u64;
        let error = (1.0 - CONFIDENCE) / f64::from(comparisons.max(1));
        // The chance that more than n - rank of n turns lie on one side of the true median.
        let encloses = |rank: &u64| 2.0 * binomial_upper_tail(n, 0.5, n + 1 - rank) <= error;
        let rank = (1..=n / 2).take_while(encloses).last();
        self.middle(|pair| pair.ours / pair.theirs, rank.map(|rank| Ranks { low: rank, high: n + 1 - rank }))
    }

    /// Our figures minus theirs, turn by turn.
    pub(super) fn difference(&self) -> Middle {
        self.middle(|pair| pair.ours - pair.theirs, self.ranks())
    }

    /// Our figures alone.
    pub(super) fn our_middle(&self) -> Middle {
        self.middle(|pair| pair.ours, self.ranks())
    }

    fn ranks(&self) -> Option<Ranks> {
        confidence_ranks(self.0.len() as u64, Quantile::P50)
    }

    fn middle(&self, of: impl Fn(&Pair) -> f64, ranks: Option<Ranks>) -> Middle {
        let mut values: Vec<f64> = self.0.iter().map(of).collect();
        let value = median(&mut values);
        let (low, high) = match ranks {
            Some(ranks) => (values[ranks.low as usize - 1], values[ranks.high as usize - 1]),
            // Too few turns to exclude anything.
            None => (f64::NEG_INFINITY, f64::INFINITY),
        };
        Middle { value, low, high }
    }
}

impl Middle {
    /// The interval, each end as `show` writes it.
    pub(super) fn interval(&self, show: impl Fn(f64) -> String) -> String {
        if self.low.is_finite() && self.high.is_finite() {
            format!("{} to {}", show(self.low), show(self.high))
        } else {
            "an interval takes 6 turns".to_owned()
        }
    }

    /// Whether the true median is within these bounds.
    pub(super) fn is_within(&self, bounds: RangeInclusive<f64>) -> Verdict {
        if bounds.contains(&self.low) && bounds.contains(&self.high) {
            Verdict::Holds
        } else if self.low > *bounds.end() || self.high < *bounds.start() {
            Verdict::Fails
        } else {
            Verdict::CannotTell
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "yes",
            Self::Fails => "no",
            Self::CannotTell => "cannot tell",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(differences: impl IntoIterator<Item = f64>) -> Pairs {
        let mut pairs = Pairs::default();
        for difference in differences {
            pairs.push(100.0 + difference, 100.0);
        }
        pairs
    }

    #[test]
    fn a_claim_holds_fails_or_cannot_be_told() {
        let steady = of((0..30).map(|i| f64::from(i) / 30.0)).difference();
        assert_eq!(steady.is_within(-3.0..=3.0), Verdict::Holds);
        assert_eq!(steady.is_within(-3.0..=-1.0), Verdict::Fails);
        assert_eq!(steady.is_within(-3.0..=0.5), Verdict::CannotTell);
        assert!(steady.low < steady.value && steady.value < steady.high);
    }

    #[test]
    fn an_interval_among_others_is_wider() {
        let nine = of((0..9).map(f64::from));
        let (one, seven) = (nine.ratio_among(1), nine.ratio_among(7));
        assert_eq!((one.low, one.high), (1.01, 1.07), "ranks 2 and 8, as for the 95 % interval");
        assert_eq!((one.low, one.high), (nine.ratio().low, nine.ratio().high));
        assert_eq!((seven.low, seven.high), (1.0, 1.08), "all turns");
        assert!(of((0..8).map(f64::from)).ratio_among(7).low.is_infinite());
    }

    #[test]
    fn a_few_turns_tell_nothing() {
        let shown = |turns: usize| of((0..turns).map(|_| 0.0)).ratio().interval(|end| format!("{end:.2}"));
        assert_eq!(["an interval takes 6 turns", "1.00 to 1.00"], [shown(5), shown(6)].each_ref().map(String::as_str));
        assert_eq!(of([0.0; 3]).ratio().is_within(0.9..=1.1), Verdict::CannotTell);
    }
}
