//! Limits on increases of a figure: `p99 +10%`.
//!
//! Takes limits and a [`Comparison`]. Returns the figures beyond their limit, those within, and those that cannot be
//! judged. These are not comparable, or too noisy for a change by the limit. An unjudged figure never counts as
//! kept.

use std::fmt;

use punctual_record::Quantity;

use crate::verdict::gate::{self, Missing, check, is_about};

use super::{Comparison, Figure, Unmatched, WhyUnmatched};
use crate::compare::outcome::{Difference, FigureComparison, Verdict};

/// Size of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Share of the old figure; 0.1 is 10 %.
    Share(f64),
    /// Nanoseconds.
    Ns(i64),
}

/// A limit: an increase by this much or more is a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Its figures; all if none is named.
    pub figure: Option<Figure>,
    /// Its subjects, with `*` for any letters; all that measure lateness if none is named.
    pub subject: Option<String>,
    /// Its size.
    pub amount: Amount,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = self.figure.map_or("any", |figure| if figure == Figure::Cpu { "cpu" } else { figure.name() });
        f.write_str(figure)?;
        if let Some(subject) = &self.subject {
            write!(f, " of {subject}")?;
        }
        match self.amount {
            Amount::Share(share) => write!(f, " +{}%", share * 100.0),
            Amount::Ns(ns) if ns % 1000 == 0 => write!(f, " +{}us", ns / 1000),
            Amount::Ns(ns) => write!(f, " +{ns}ns"),
        }
    }
}

impl Limit {
    pub(super) fn is_about(&self, experiment: &str, subject: &str, quantity: Quantity) -> bool {
        is_about(self.subject.as_deref(), experiment, subject, quantity)
    }
}

/// Checks that each limit is about a series of either side.
///
/// # Errors
/// The first that is about none.
pub fn check_subjects(limits: &[Limit], comparison: &Comparison) -> Result<(), Missing> {
    let both =
        comparison.series.iter().map(|series| (series.experiment.as_str(), series.subject.as_str(), series.quantity));
    let one = comparison
        .unmatched
        .iter()
        .map(|series| (series.experiment.as_str(), series.subject.as_str(), series.quantity));
    let there: Vec<_> = both.chain(one).collect();
    if there.is_empty() { Ok(()) } else { check(limits.iter().map(|limit| limit.subject.as_deref()), &there) }
}

/// A figure beyond a limit, or one that cannot be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The limit.
    pub limit: Limit,
    /// Index in [`Comparison::series`]; `None` for a subject that only the old runs have, or for none at all.
    pub series: Option<usize>,
    /// The figure.
    pub figure: Option<Figure>,
    /// The increase, or why it cannot be judged.
    pub what: What,
}

/// The finding.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Significantly worse by this much.
    Worse(Difference),
    /// The noise of the figure could hide a change by the limit. The number is of interleaved runs a side that show it.
    Blind(Difference, Option<u32>),
    /// Not comparable.
    Unknown(String),
    /// A series that only the old runs have, or whose new conditions were asked for otherwise.
    Unmatched(Unmatched),
}

/// The verdict on the limits.
pub type Judgement = gate::Judgement<Finding>;

/// Judges a comparison by every limit.
#[must_use]
pub fn evaluate(limits: &[Limit], comparison: &Comparison) -> Judgement {
    judged(limits, comparison, judge)
}

/// The same, each figure judged by this.
pub(super) fn judged(
    limits: &[Limit],
    comparison: &Comparison,
    judge: impl Fn(&Limit, &FigureComparison) -> Option<What>,
) -> Judgement {
    let mut judgement = Judgement::default();
    for limit in limits {
        let finding = |series, figure, what| Finding { limit: limit.clone(), series, figure, what };
        let mut met = 0;
        for (place, series) in comparison.series.iter().enumerate() {
            if !limit.is_about(&series.experiment, &series.subject, series.quantity) {
                continue;
            }
            let figures = series.figures.iter().filter(|one| limit.figure.is_none_or(|figure| figure == one.figure));
            for figure in figures {
                met += 1;
                let found = judge(limit, figure).map(|what| finding(Some(place), Some(figure.figure), what));
                match found {
                    None => judgement.kept += 1,
                    Some(found @ Finding { what: What::Worse(_), .. }) => judgement.failed.push(found),
                    Some(found) => judgement.unjudged.push(found),
                }
            }
        }
        // A series that only the new runs have cannot be worse.
        let counts = |series: &&Unmatched| {
            series.why != WhyUnmatched::OnlyNew && limit.is_about(&series.experiment, &series.subject, series.quantity)
        };
        for missing in comparison.unmatched.iter().filter(counts) {
            met += 1;
            judgement.unjudged.push(finding(None, None, What::Unmatched(missing.clone())));
        }
        if met == 0 {
            let why = "nothing that it is about is in both old and new runs".to_owned();
            judgement.unjudged.push(finding(None, None, What::Unknown(why)));
        }
    }
    judgement
}

/// The violation of a figure; `None` if it keeps the limit.
fn judge(limit: &Limit, figure: &FigureComparison) -> Option<What> {
    let Some(difference) = figure.difference else {
        return Some(What::Unknown(figure.why.clone().unwrap_or_default()));
    };
    // The change, its bound, and nanoseconds to each unit of both.
    let (by, bound, unit_ns) = match (limit.amount, difference.by_share) {
        (Amount::Ns(ns), _) => (difference.by_ns, ns as f64, 1.0),
        (Amount::Share(bound), Some(share)) => (share, bound, difference.old_ns),
        (Amount::Share(_), None) => {
            return Some(What::Unknown("the old figure is not above zero: it has no shares".into()));
        }
    };
    match figure.verdict {
        Verdict::Worse if by.value >= bound => Some(What::Worse(difference)),
        Verdict::NoDifference if by.high - by.value > bound => {
            Some(What::Blind(difference, difference.runs_to_show(bound * unit_ns)))
        }
        Verdict::Worse | Verdict::Better | Verdict::NoDifference => None,
        Verdict::NotComparable => Some(What::Unknown(figure.why.clone().unwrap_or_default())),
    }
}
