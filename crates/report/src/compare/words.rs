//! Text shared by all forms of a comparison: changes in numbers, the summary in sentences, and names that tell a series from
//! the others of its experiment.

use std::collections::BTreeMap;

use crate::compare::limit::{Finding, Judgement, What};
use crate::compare::outcome::{Difference, FigureComparison, Range, SeriesComparison, Verdict};
use crate::compare::{Change, Comparison, Figure, Unmatched, WhyUnmatched};
use crate::document::{Level, Phrase};
use crate::format::{listed, naming, sanitize, unbroken, units};
use crate::verdict::gate::Gate;
use punctual_record::Hint;
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

/// Whether it is one of the two.
pub(crate) fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Worse | Verdict::Better)
}

/// A subject, after its experiment if the experiment measures governors and settings: `ramp as found`.
fn measured(experiment: &str, subject: &str) -> String {
    const ON_SETTINGS: [&str; 3] = ["ramp", "switch", "boost"];
    if ON_SETTINGS.contains(&experiment) { format!("{experiment} {subject}") } else { subject.to_owned() }
}

/// A share with its sign: `+20.1 %`.
fn signed(share: f64) -> String {
    let percent = share * 100.0;
    let minus = '−';
    let sign = if percent < 0.0 { minus } else { '+' };
    let percent = percent.abs();
    match percent {
        _ if percent >= 9_950.0 => format!("{sign}{:.0}-fold", percent / 100.0),
        _ if percent >= 9.95 => format!("{sign}{percent:.0} %"),
        _ => format!("{sign}{percent:.1} %"),
    }
}

/// A duration with its sign.
pub(super) fn signed_ns(ns: f64) -> String {
    let text = units::duration_fine(ns.abs());
    let minus = '−';
    format!("{}{text}", if ns < 0.0 { minus } else { '+' })
}

/// The change: as a share, or in ns if there is none.
pub(crate) fn change(difference: &Difference) -> String {
    match difference.by_share {
        Some(share) => signed(share.value),
        None => signed_ns(difference.by_ns.value),
    }
}

/// The interval of the change.
pub(crate) fn interval(difference: &Difference) -> String {
    let show = |range: Range, show: &dyn Fn(f64) -> String| format!("[{} {}]", show(range.low), show(range.high));
    match difference.by_share {
        Some(share) => show(share, &|share| signed(share).trim_end_matches(" %").to_owned()),
        None => show(difference.by_ns, &|ns| signed_ns(ns)),
    }
}

/// The cell of the column of that name.
pub(super) const DETECTABLE: &str =
    "detectable: the smallest increase that such a comparison shows with 90 % power, were it the only difference.";

/// The smallest detectable increase.
pub(super) fn detectable(difference: &Difference) -> String {
    match difference.shows_share {
        Some(share) if share > 99.0 => format!("{}-fold", "≥100"),
        Some(share) => signed(share),
        None => signed_ns(difference.shows_ns),
    }
}

/// The extent and the result of the comparison, in sentences.
pub(crate) fn summary(comparison: &Comparison) -> Vec<String> {
    let side = |runs: &[super::RunName]| {
        let mut files: Vec<String> = runs.iter().map(|run| sanitize(&run.shown())).collect();
        // A merged file holds several runs.
        files.dedup();
        match (runs, files.as_slice()) {
            ([one], _) => format!("{} of {}", files[0], &one.started.get(..10).unwrap_or(&one.started)),
            (_, [file]) => format!("{} runs of {file}", runs.len()),
            _ => format!("{} runs ({})", runs.len(), listed(&files, 4)),
        }
    };
    let mut first = format!("Old: {}. New: {}.", side(&comparison.old), side(&comparison.new));
    if comparison.in_turns {
        first.push_str(" Old and new runs are interleaved: each is compared with its neighbour.");
    }
    other_machine(comparison).into_iter().chain([outcome(comparison), first]).collect()
}

/// What is different about the machine itself and its kernel.
pub(super) fn other_machine(comparison: &Comparison) -> Option<String> {
    let arrow = "→";
    let tell = |change: &Change| format!("{} {} {arrow} {}", change.what, sanitize(&change.old), sanitize(&change.new));
    let told: Vec<String> = comparison.machine.iter().map(tell).collect();
    (!told.is_empty()).then(|| format!("The old runs are of another machine or kernel: {}.", told.join("; ")))
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
    let rest = match rest {
        0 => String::new(),
        1 => "; the other one shows no difference".to_owned(),
        _ => format!("; the other {rest} show no difference"),
    };
    format!("Of {compared} figures that could be compared: {}{rest}.", listed(&parts, usize::MAX))
}

/// The smallest detectable increase of each figure.
pub(super) fn sight(comparison: &Comparison) -> Option<String> {
    let mut parts = Vec::new();
    for figure in Figure::ALL {
        let shares: Vec<f64> = rows(comparison, |verdict| verdict != Verdict::NotComparable)
            .iter()
            .filter(|(_, compared)| compared.figure == figure)
            .filter_map(|(_, compared)| compared.difference?.shows_share)
            .filter(|share| share.is_finite())
            .collect();
        let ends = shares.iter().copied().min_by(f64::total_cmp).zip(shares.iter().copied().max_by(f64::total_cmp));
        let (Some((least, most)), Some(middle)) = (ends, median(&shares)) else { continue };
        let percent = |share: f64| if share > 10.0 { "more than tenfold".to_owned() } else { units::share(share) };
        let half = percent(middle);
        parts.push(match shares.len() {
            1 => format!("{} {half}", figure.name()),
            _ => format!("{} {half} ({} to {})", figure.name(), percent(least), percent(most)),
        });
    }
    (!parts.is_empty()).then(|| {
        let told = parts.join("; ");
        format!("Smallest detectable increase with 90 % power, median of the series (range): {told}.")
    })
}

/// Series that could not be compared, by reason.
pub(super) fn missing(comparison: &Comparison) -> Vec<String> {
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
        format!("{why}: {}", listed(&names, 6))
    };
    by_reason.into_iter().map(tell).take(MOST).collect()
}

/// Differences between machines and settings.
pub(crate) fn changes(comparison: &Comparison) -> Vec<String> {
    let arrow = "→";
    let tell = |change: &super::Change| {
        format!("{}: {} {arrow} {}", sanitize(&change.what), sanitize(&change.old), sanitize(&change.new))
    };
    comparison.changes.iter().map(tell).collect()
}

/// The verdict on the limits: failures first, then unjudged figures.
pub(super) fn judged(judgement: &Judgement, comparison: &Comparison) -> Vec<Phrase> {
    let failed = judgement.failed.iter().map(|finding| (Level::Exceeded, finding));
    let unjudged = judgement.unjudged.iter().map(|finding| (Level::Unjudged, finding));
    failed.chain(unjudged).map(|(level, finding)| phrase(level, finding, comparison)).collect()
}

/// The verdict on the limits, as a word and its reason.
pub(crate) fn gate(judgement: &Judgement, comparison: &Comparison) -> Gate {
    Gate::new(judgement, &judged(judgement, comparison))
}

/// The settings that neither command line changed, but that held otherwise. That it is the cause is not shown: other things may have
/// changed with it.
fn probable_cause(series: &SeriesComparison) -> Option<String> {
    let arrow = "→";
    let told =
        series.changed.iter().map(|change| format!("{} {arrow} {}", sanitize(&change.old), sanitize(&change.new)));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!(" Probable cause: {}.", told.join(", ")))
}

fn phrase(level: Level, finding: &Finding, comparison: &Comparison) -> Phrase {
    let limit = sanitize(&finding.limit.to_string());
    let series = finding.series.and_then(|place| comparison.series.get(place));
    let subject = match (series, finding.figure) {
        (Some(series), Some(figure)) => format!("{} of {}", figure.name(), comparison.names.anywhere(series)),
        _ => String::new(),
    };
    let amount = |difference: &Difference| unbroken(&format!("{} {}", change(difference), interval(difference)));
    let text = match &finding.what {
        What::Worse(difference) => {
            let cause = series.and_then(probable_cause).unwrap_or_default();
            format!("{subject} is worse by {}; limit: {limit}.{cause}", amount(difference))
        }
        What::Blind(difference, _) => {
            format!("{subject}: a change by the limit could hide in {}; limit: {limit}.", amount(difference))
        }
        What::Unmatched(one) => {
            let why = format!("{} under {}: {}", one.subject, one.conditions, one.why);
            format!("{}; limit: {limit}.", sanitize(&why))
        }
        What::Unknown(why) if subject.is_empty() => format!("{}; limit: {limit}.", sanitize(why)),
        What::Unknown(why) => format!("{subject}: {}; limit: {limit}.", sanitize(why)),
    };
    let remedy = match &finding.what {
        What::Blind(_, Some(runs)) => Some(format!("take about {runs} interleaved runs a side, or a wider limit.")),
        What::Unmatched(Unmatched {
            why: WhyUnmatched::AskedOtherwise(_) | WhyUnmatched::OtherParameters(_), ..
        }) => Some("compare series of other requests with --across-conditions.".to_owned()),
        What::Blind(_, None) => Some("widen the limit: the noise of a thousand runs a side exceeds it.".to_owned()),
        _ => None,
    };
    Phrase { remedy: remedy.map(Hint::from), ..Phrase::new(level, text) }
}

#[cfg(test)]
mod tests {
    use super::measured;

    #[test]
    fn governors_and_settings_are_named_after_their_experiment() {
        assert_eq!(measured("ramp", "as found"), "ramp as found");
        assert_eq!(measured("wait", "nanosleep"), "nanosleep");
    }
}
