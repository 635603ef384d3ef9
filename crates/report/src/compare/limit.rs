//! Limits on increases of a figure: `p99 +10%`.
//!
//! Takes limits and a [`Comparison`]. Returns the figures beyond their limit, those within, and those that cannot be
//! judged. These are not comparable, or too noisy for a change by the limit. An unjudged figure never counts as
//! kept.

use std::fmt;

use punctual_record::Quantity;

use crate::compare::outcome::{Difference, FigureComparison, SeriesComparison, Verdict};
use crate::compare::words::{change, interval, settings};
use crate::compare::{Comparison, Figure, Unmatched, WhyUnmatched};
use crate::document::{Level, Phrase};
use crate::format::{sanitize, unbroken};
use crate::verdict::gate::{Judgement, Missing, check, is_about};

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

    /// The increase in ns that it forbids; `None`: an old figure that is not above zero has no shares.
    pub(super) fn bound_ns(&self, old_ns: f64) -> Option<f64> {
        match self.amount {
            Amount::Ns(ns) => Some(ns as f64),
            Amount::Share(share) => (old_ns > 0.0).then_some(share * old_ns),
        }
    }

    /// Its figures, each with the place of its series.
    pub(super) fn figures<'c>(
        &self,
        comparison: &'c Comparison,
    ) -> impl Iterator<Item = (usize, &'c FigureComparison)> {
        let series = comparison.series.iter().enumerate();
        let series = series.filter(|(_, one)| self.is_about(&one.experiment, &one.subject, one.quantity));
        let all = series.flat_map(|(place, series)| series.figures.iter().map(move |figure| (place, figure)));
        all.filter(|(_, one)| self.figure.is_none_or(|figure| figure == one.figure))
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

/// What was found of a figure that is not shown to keep its limit.
pub(super) enum What {
    /// Significantly worse by more.
    Worse,
    /// The noise of the figure could hide a change by the limit. The number is of interleaved runs a side that show it.
    Blind(Option<u32>),
}

/// Judges a comparison by every limit.
#[must_use]
pub fn evaluate(limits: &[Limit], comparison: &Comparison) -> Judgement {
    judged(limits, comparison, judge)
}

/// The same, each difference judged by this; its last argument is the limit in ns.
pub(super) fn judged(
    limits: &[Limit],
    comparison: &Comparison,
    judge: impl Fn(&Limit, Verdict, &Difference, f64) -> Option<What>,
) -> Judgement {
    let mut judgement = Judgement::default();
    for limit in limits {
        let mut met = false;
        for (place, figure) in limit.figures(comparison) {
            met = true;
            let series = &comparison.series[place];
            let name = || format!("{} of {}", figure.figure.name(), comparison.names.anywhere(series));
            let unknown = |why: &str| Some(unjudged(limit, &format!("{}: {}", name(), sanitize(why))));
            let phrase = match figure.difference.as_ref().map(|known| (known, limit.bound_ns(known.old_ns))) {
                None => unknown(figure.why.as_deref().unwrap_or_default()),
                Some((_, None)) => unknown("the old figure is not above zero: it has no shares"),
                Some((known, Some(bound_ns))) => {
                    let what = judge(limit, figure.verdict, known, bound_ns);
                    what.map(|what| phrase(limit, what, &name(), (known, series)))
                }
            };
            judgement.add(Some(place), phrase);
        }
        // A series that only the new runs have cannot be worse.
        let counts = |one: &&Unmatched| {
            one.why != WhyUnmatched::OnlyNew && limit.is_about(&one.experiment, &one.subject, one.quantity)
        };
        for missing in comparison.unmatched.iter().filter(counts) {
            met = true;
            judgement.add(None, Some(without_partner(limit, missing)));
        }
        if !met {
            judgement.add(None, Some(unjudged(limit, "nothing that it is about is in both old and new runs")));
        }
    }
    judgement
}

/// What became of a figure; `None` if it keeps the limit.
fn judge(limit: &Limit, verdict: Verdict, known: &Difference, bound_ns: f64) -> Option<What> {
    let (by, bound) = match (limit.amount, known.by_share) {
        (Amount::Share(bound), Some(share)) => (share, bound),
        _ => (known.by_ns, bound_ns),
    };
    match verdict {
        Verdict::Worse if by.value >= bound => Some(What::Worse),
        Verdict::NoDifference if by.high - by.value > bound => Some(What::Blind(known.runs_to_show(bound_ns))),
        _ => None,
    }
}

/// What is said of a figure that moved.
fn phrase(limit: &Limit, what: What, name: &str, (known, series): (&Difference, &SeriesComparison)) -> Phrase {
    let amount = unbroken(&format!("{} {}", change(known), interval(known)));
    match what {
        What::Worse => {
            // That they are the cause is not shown: other things may have changed with them.
            let settings = settings(series).join(", ");
            let cause = if settings.is_empty() { settings } else { format!(" Probable cause: {settings}.") };
            let limit = sanitize(&limit.to_string());
            Phrase::new(Level::Exceeded, format!("{name} is worse by {amount}; limit: {limit}.{cause}"))
        }
        What::Blind(runs) => {
            let remedy = match runs {
                Some(runs) => format!("take about {runs} interleaved runs a side, or a wider limit."),
                None => "widen the limit: the noise of a thousand runs a side exceeds it.".to_owned(),
            };
            unjudged(limit, &format!("{name}: a change by the limit could hide in {amount}")).remedy(remedy)
        }
    }
}

/// What is said of a series that only the old runs have, or whose new conditions were asked for otherwise.
fn without_partner(limit: &Limit, one: &Unmatched) -> Phrase {
    let phrase = unjudged(limit, &sanitize(&format!("{} under {}: {}", one.subject, one.conditions, one.why)));
    match one.why {
        WhyUnmatched::AskedOtherwise(_) | WhyUnmatched::OtherParameters(_) => {
            phrase.remedy("compare series of other requests with --across-conditions.")
        }
        WhyUnmatched::OnlyOld | WhyUnmatched::OnlyNew => phrase,
    }
}

fn unjudged(limit: &Limit, why: &str) -> Phrase {
    Phrase::new(Level::Unjudged, format!("{why}; limit: {}.", sanitize(&limit.to_string())))
}
