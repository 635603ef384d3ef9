//! Text shared by all forms of a comparison: changes in numbers, the summary in sentences, and names that tell a series from
//! the others of its experiment.

use std::collections::BTreeMap;

use crate::compare::outcome::measured;
use crate::compare::outcome::{Difference, FigureComparison, Range, SeriesComparison, Verdict};
use crate::compare::{Change, Comparison, Figure};
use crate::format::{listed, naming, sanitize, units};
use punctual_record::statistics::median;

/// Most rows of a table and most items of a list.
pub(crate) const MOST: usize = 300;

/// A figure with its series.
pub(crate) type Row<'a> = (&'a SeriesComparison, &'a FigureComparison);

/// The rows with this verdict, in the order of the series.
pub(crate) fn rows(comparison: &Comparison, wanted: impl Fn(Verdict) -> bool) -> Vec<Row<'_>> {
    let all = comparison.series.iter().flat_map(|series| series.figures.iter().map(move |figure| (series, figure)));
    all.filter(|(_, figure)| wanted(figure.verdict)).collect()
}

/// A share with its sign: `+20.1 %`, and from a hundred times on `+290×`.
fn signed(share: f64) -> String {
    let percent = share * 100.0;
    let sign = if percent < 0.0 { '−' } else { '+' };
    let percent = percent.abs();
    match percent {
        _ if percent >= 999_950.0 => ">9999×".to_owned(),
        _ if percent >= 9_950.0 => format!("{sign}{:.0}×", percent / 100.0),
        _ if percent >= 9.95 => format!("{sign}{percent:.0} %"),
        _ => format!("{sign}{percent:.1} %"),
    }
}

/// The change: as a share, or in ns if there is none.
pub(crate) fn change(difference: &Difference) -> String {
    match difference.by_share {
        Some(share) => signed(share.value),
        None => units::signed(difference.by_ns.value),
    }
}

/// The interval of the change.
pub(crate) fn interval(difference: &Difference) -> String {
    let show = |range: Range, show: &dyn Fn(f64) -> String| format!("[{} {}]", show(range.low), show(range.high));
    match difference.by_share {
        Some(share) => show(share, &|share| signed(share).trim_end_matches(" %").to_owned()),
        None => show(difference.by_ns, &units::signed),
    }
}

/// The cell of the column of that name.
pub(super) const DETECTABLE: &str =
    "detectable: the smallest increase that such a comparison shows with 90 % power, were it the only difference.";

/// The smallest detectable increase.
pub(super) fn detectable(difference: &Difference) -> String {
    match difference.shows_share {
        Some(share) if share > 99.0 => "≥100×".to_owned(),
        Some(share) => signed(share),
        None => units::signed(difference.shows_ns),
    }
}

/// What is different about the machine itself and its kernel.
pub(super) fn other_machine(comparison: &Comparison) -> Option<String> {
    let tell = |change: &Change| format!("{} {}", change.what, change.in_words());
    let told: Vec<String> = comparison.machine.iter().map(tell).collect();
    (!told.is_empty()).then(|| format!("The old runs are of another machine or kernel: {}.", told.join("; ")))
}

/// The smallest detectable increases of a figure as shares of the old one: the median of the series, the least and the most.
struct Sight {
    figure: Figure,
    series: usize,
    median: f64,
    ends: (f64, f64),
}

/// Those of each figure.
fn sights(comparison: &Comparison) -> Vec<Sight> {
    let of = |figure: Figure| {
        let shares: Vec<f64> = rows(comparison, |verdict| verdict != Verdict::NotComparable)
            .iter()
            .filter(|(_, compared)| compared.figure == figure)
            .filter_map(|(_, compared)| compared.difference?.shows_share)
            .filter(|share| share.is_finite())
            .collect();
        let ends = shares.iter().copied().min_by(f64::total_cmp).zip(shares.iter().copied().max_by(f64::total_cmp))?;
        Some(Sight { figure, series: shares.len(), median: median(&shares)?, ends })
    };
    Figure::ALL.into_iter().filter_map(of).collect()
}

/// A detectable increase in words.
fn seen(share: f64) -> String {
    if share > 10.0 { "more than tenfold".to_owned() } else { units::share(share) }
}

/// The smallest detectable increase of each figure.
pub(super) fn sight(comparison: &Comparison) -> Option<String> {
    let part = |sight: &Sight| match sight.series {
        1 => format!("{} {}", sight.figure.name(), seen(sight.median)),
        _ => {
            format!("{} {} ({} to {})", sight.figure.name(), seen(sight.median), seen(sight.ends.0), seen(sight.ends.1))
        }
    };
    let parts: Vec<String> = sights(comparison).iter().map(part).collect();
    (!parts.is_empty()).then(|| {
        let told = parts.join("; ");
        format!("Smallest detectable increase with 90 % power, median of the series (range): {told}.")
    })
}

/// What the comparison would have shown, in a sentence.
pub(super) fn power(comparison: &Comparison) -> Option<String> {
    let part = |sight: &Sight| match sight.figure {
        Figure::Cpu => format!("{} in CPU time", seen(sight.median)),
        figure => format!("{} at {}", seen(sight.median), figure.name()),
    };
    let sights = sights(comparison);
    let parts: Vec<String> = sights.iter().map(part).collect();
    let of = if sights.iter().any(|sight| sight.series > 1) { " (median of the series)" } else { "" };
    (!parts.is_empty())
        .then(|| format!("Nine of ten such comparisons would show an increase by {}{of}.", listed(&parts, usize::MAX)))
}

/// Series that could not be compared, by reason, with the names of at most this many.
pub(super) fn missing(comparison: &Comparison, most: usize) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (series, figure) in rows(comparison, |verdict| verdict == Verdict::NotComparable) {
        let why = sanitize(figure.why.as_deref().unwrap_or("unknown"));
        by_reason.entry(why).or_default().push(comparison.names.anywhere(series));
    }
    for one in &comparison.unmatched {
        let why = naming::phrase(&one.why.to_string());
        let subject = sanitize(&measured(&one.experiment, &one.subject));
        by_reason.entry(why).or_default().push(format!("{subject} ({})", naming::phrase(&one.conditions)));
    }
    let tell = |(why, mut names): (String, Vec<String>)| {
        names.dedup();
        format!("{why}: {}", listed(&names, most))
    };
    by_reason.into_iter().map(tell).take(MOST).collect()
}

/// Differences between machines and settings.
pub(crate) fn changes(comparison: &Comparison) -> Vec<String> {
    let tell = |change: &Change| format!("{}: {}", sanitize(&change.what), change.in_words());
    comparison.changes.iter().map(tell).collect()
}

/// The settings that held otherwise on the new side: the machine's, where nothing else was asked for.
pub(super) fn settings(series: &SeriesComparison) -> Vec<String> {
    series.changed.iter().map(Change::in_words).collect()
}
