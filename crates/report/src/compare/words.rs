//! What text and Markdown have in common: names of series, changes in numbers, the summary in sentences.

use std::collections::BTreeMap;

use crate::background::telling;
use crate::plain::plain;
use crate::story::unbroken;
use crate::style::Style;
use crate::units;
use crate::words::listed;

use super::limit::{Finding, Judgement, What};
use super::{Comparison, Difference, Figure, FigureComparison, Range, SeriesComparison, Verdict};

/// Most rows of one table, most items of one list: beyond it, nobody reads.
pub(crate) const MOST: usize = 300;

/// A figure with its series.
pub(crate) type Row<'a> = (&'a SeriesComparison, &'a FigureComparison);

/// The rows with such a verdict, in the order of the series.
pub(crate) fn rows(comparison: &Comparison, wanted: impl Fn(Verdict) -> bool) -> Vec<Row<'_>> {
    let all = comparison.series.iter().flat_map(|series| series.figures.iter().map(move |figure| (series, figure)));
    all.filter(|(_, figure)| wanted(figure.verdict)).collect()
}

/// Whether it is one of both.
pub(crate) fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Worse | Verdict::Better)
}

/// Which series: `nanosleep, asked 100 µs`, with its conditions where the comparison has several.
pub(crate) fn name(comparison: &Comparison, series: &SeriesComparison, style: &Style) -> String {
    let mut text = plain(&series.subject, style) + &telling(&series.parameters, style);
    if comparison.many_conditions {
        text.push_str(&format!(", {}", plain(&series.conditions, style)));
    }
    text
}

/// A share with its sign: `+20.1 %`.
pub(super) fn signed(share: f64, style: &Style) -> String {
    let percent = share * 100.0;
    let minus = if style.unicode { '−' } else { '-' };
    let sign = if percent < 0.0 { minus } else { '+' };
    let percent = percent.abs();
    match percent {
        _ if percent >= 9_950.0 => format!("{sign}{:.0}-fold", percent / 100.0),
        _ if percent >= 9.95 => format!("{sign}{percent:.0} %"),
        _ => format!("{sign}{percent:.1} %"),
    }
}

fn signed_ns(ns: f64, style: &Style) -> String {
    let text = units::duration_fine(ns.abs(), style);
    let minus = if style.unicode { '−' } else { '-' };
    format!("{}{text}", if ns < 0.0 { minus } else { '+' })
}

/// By how much: as a share, or in ns where there is none.
pub(crate) fn change(difference: &Difference, style: &Style) -> String {
    match difference.by_share {
        Some(share) => signed(share.value, style),
        None => signed_ns(difference.by_ns.value, style),
    }
}

/// The interval of that.
pub(crate) fn interval(difference: &Difference, style: &Style) -> String {
    let show = |range: Range, show: &dyn Fn(f64) -> String| format!("[{} {}]", show(range.low), show(range.high));
    match difference.by_share {
        Some(share) => show(share, &|share| signed(share, style).trim_end_matches(" %").to_owned()),
        None => show(difference.by_ns, &|ns| signed_ns(ns, style)),
    }
}

/// What the column of that name says.
pub(crate) const FINDS: &str = "Finds: the increase from which on nine of ten comparisons like this one would show it, were it the only difference.";

/// From what increase on this would have been shown.
pub(crate) fn finds(difference: &Difference, style: &Style) -> String {
    match difference.shows_share {
        Some(share) if share > 99.0 => format!("{}-fold", if style.unicode { "≥100" } else { ">=100" }),
        Some(share) => signed(share, style),
        None => signed_ns(difference.shows_ns, style),
    }
}

/// What was compared, and the result, in sentences.
pub(crate) fn summary(comparison: &Comparison, style: &Style) -> Vec<String> {
    let side = |runs: &[super::RunName]| {
        let files: Vec<String> = runs.iter().map(|run| plain(&run.shown(), style)).collect();
        match runs {
            [one] => format!("{} of {}", files[0], &one.started.get(..10).unwrap_or(&one.started)),
            _ => format!("{} runs ({})", runs.len(), listed(&files, 4)),
        }
    };
    let mut first = format!("Old: {}. New: {}.", side(&comparison.old), side(&comparison.new));
    if comparison.in_turns {
        first.push_str(" Old and new runs took turns: each is compared with its neighbour.");
    }
    let mut sentences = vec![first];
    sentences.push(outcome(comparison));
    sentences
}

fn outcome(comparison: &Comparison) -> String {
    let compared = comparison.compared;
    if compared == 0 {
        return "Nothing could be compared.".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (series, figure) in rows(comparison, differs) {
        *counts.entry(figure.verdict.word(figure.figure, series.quantity)).or_default() += 1;
    }
    if counts.is_empty() {
        return format!("No difference that this data can show, in any of {compared} figures.");
    }
    let parts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let rest = compared - counts.values().sum::<usize>();
    let rest = if rest == 0 { String::new() } else { format!("; the other {rest} show no difference") };
    format!("Of {compared} figures that could be compared: {}{rest}.", listed(&parts, usize::MAX))
}

/// From what change on a difference would have been shown, by figure.
pub(super) fn sight(comparison: &Comparison) -> Option<String> {
    let mut parts = Vec::new();
    for figure in Figure::ALL {
        let mut shares: Vec<f64> = rows(comparison, |verdict| verdict != Verdict::NotComparable)
            .iter()
            .filter(|(_, its)| its.figure == figure)
            .filter_map(|(_, its)| its.difference?.shows_share)
            .filter(|share| share.is_finite())
            .collect();
        shares.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (shares.first(), shares.last()) else { continue };
        let middle = shares[shares.len() / 2];
        let percent = |share: f64| if share > 10.0 { "more than tenfold".to_owned() } else { units::share(share) };
        let half = percent(middle);
        parts.push(match shares.len() {
            1 => format!("{} {half}", figure.name()),
            _ => format!("{} {half} ({} to {})", figure.name(), percent(*least), percent(*most)),
        });
    }
    (!parts.is_empty()).then(|| {
        let told = parts.join("; ");
        format!("The increase that nine of ten such comparisons find, for the middle one of the series (the best to the worst): {told}.")
    })
}

/// What could not be compared, by reason: the reason, and the series it holds for.
pub(super) fn missing(comparison: &Comparison, style: &Style) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (series, figure) in rows(comparison, |verdict| verdict == Verdict::NotComparable) {
        let why = plain(figure.why.as_deref().unwrap_or("unknown"), style);
        by_reason.entry(why).or_default().push(name(comparison, series, style));
    }
    for one in &comparison.unmatched {
        let why = plain(&one.why, style);
        by_reason.entry(why).or_default().push(format!(
            "{} ({})",
            plain(&one.subject, style),
            plain(&one.conditions, style)
        ));
    }
    let tell = |(why, mut names): (String, Vec<String>)| {
        names.dedup();
        format!("{why}: {}", listed(&names, 6))
    };
    by_reason.into_iter().map(tell).take(MOST).collect()
}

/// What differs between machines and settings.
pub(crate) fn changes(comparison: &Comparison, style: &Style) -> Vec<String> {
    let arrow = if style.unicode { "→" } else { "->" };
    let tell = |change: &super::Change| {
        format!("{}: {} {arrow} {}", plain(&change.what, style), plain(&change.old, style), plain(&change.new, style))
    };
    comparison.changes.iter().map(tell).collect()
}

/// What became of the limits: failures first, then what cannot be judged. Each with whether it is a failure.
pub(crate) fn judged(judgement: &Judgement, comparison: &Comparison, style: &Style) -> Vec<(bool, String)> {
    let failed = judgement.failed.iter().map(|finding| (true, finding));
    let unjudged = judgement.unjudged.iter().map(|finding| (false, finding));
    let tell = |(is_failure, finding): (bool, &Finding)| (is_failure, sentence(finding, comparison, style));
    failed.chain(unjudged).map(tell).collect()
}

fn sentence(finding: &Finding, comparison: &Comparison, style: &Style) -> String {
    let limit = plain(&finding.limit.to_string(), style);
    let series = finding.series.and_then(|place| comparison.series.get(place));
    let subject = match (series, finding.figure) {
        (Some(series), Some(figure)) => format!("{} of {}", figure.name(), name(comparison, series, style)),
        _ => String::new(),
    };
    let of =
        |difference: &Difference| unbroken(&format!("{} {}", change(difference, style), interval(difference, style)));
    match &finding.what {
        What::Worse(difference) => format!("failed: {subject} is worse by {}; limit: {limit}.", of(difference)),
        What::Blind(difference) => format!(
            "unjudged: {subject}: a change by the limit could hide in {}; limit: {limit}. \
             Remedy: more runs of either side, in turns, or a wider limit.",
            of(difference)
        ),
        What::Unknown(why) if subject.is_empty() => format!("unjudged: {}; limit: {limit}.", plain(why, style)),
        What::Unknown(why) => format!("unjudged: {subject}: {}; limit: {limit}.", plain(why, style)),
    }
}
