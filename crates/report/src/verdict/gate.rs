//! The verdict on limits, for builds that must fail if a machine becomes later: `p99 of futex > 200us`.
//!
//! Takes a run with the limits that it was asked to keep. Returns the series beyond them, those that cannot be judged, and
//! both in words. A percentile without enough samples never counts as kept. A limit without a subject is about lateness:
//! work loops and costs of calls are judged only where a limit names them.

use std::collections::BTreeSet;

use punctual_record::{Key, Limit, Quantile, Quantity, Run, Series, Summary};
use serde::Serialize;

use crate::document::{Level, Phrase};
use crate::format::naming::{conditions, parameter, under};
use crate::format::{sanitize, spoken, unbroken, units};

/// The verdict in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All figures were judged, and none is beyond its limit.
    Pass,
    /// A figure is beyond its limit.
    Fail,
    /// None is shown beyond its limit, and at least one cannot be judged.
    Undecided,
}

impl Outcome {
    /// `PASS`, `FAIL` or `UNDECIDED`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Undecided => "UNDECIDED",
        }
    }
}

/// The verdict of all limits, as every form of a report has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// In a word.
    pub outcome: Outcome,
    /// In a sentence, which begins with the word.
    pub sentence: String,
    /// Each figure beyond its limit, then each that cannot be judged.
    pub findings: Vec<String>,
}

impl Gate {
    /// With the finding that decides it, or what was judged.
    pub(crate) fn new(judgement: &Judgement) -> Self {
        let (outcome, kept) = (judgement.outcome(), judgement.kept);
        let word = outcome.word();
        let findings: Vec<String> = judgement.phrases().map(finding).collect();
        let sentence = match findings.as_slice() {
            [] if kept == 0 => format!("{word}: nothing was judged."),
            [] => format!("{word}: {kept} figure{} judged, none beyond its limit.", if kept == 1 { "" } else { "s" }),
            [one] => format!("{word}: {one}"),
            [first, rest @ ..] => format!("{word}: {first} And {} more.", rest.len()),
        };
        Self { outcome, sentence, findings }
    }

    /// The verdict on a run; `None` where it has no limits.
    #[must_use]
    pub fn from_run(run: &Run) -> Option<Self> {
        (!run.limits.is_empty()).then(|| Self::new(&evaluate(run)))
    }
}

/// A phrase and its remedy, a sentence each.
fn finding(phrase: &Phrase) -> String {
    let Some(remedy) = phrase.remedy.as_ref().map(ToString::to_string) else { return phrase.text.clone() };
    let (first, rest) = remedy.split_at(remedy.chars().next().map_or(0, char::len_utf8));
    format!("{} {}{rest}", phrase.text, first.to_uppercase())
}

/// A figure beyond a limit, or one that cannot be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its place among the series of the run or of the comparison; `None`: there is none that the limit is about.
    pub series: Option<usize>,
    /// What is said of it.
    pub phrase: Phrase,
}

/// What became of limits, on a run or on a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Beyond their limit.
    pub failed: Vec<Finding>,
    /// Cannot be judged.
    pub unjudged: Vec<Finding>,
    /// Figures that were judged and kept their limit.
    pub kept: usize,
}

impl Judgement {
    /// Adds what is said of a figure; `None`: it keeps its limit.
    pub(crate) fn add(&mut self, series: Option<usize>, phrase: Option<Phrase>) {
        let Some(phrase) = phrase else { return self.kept += 1 };
        let findings = if phrase.level == Level::Exceeded { &mut self.failed } else { &mut self.unjudged };
        findings.push(Finding { series, phrase });
    }

    /// What is said of each figure beyond its limit, then of each that cannot be judged.
    pub fn phrases(&self) -> impl Iterator<Item = &Phrase> {
        self.failed.iter().chain(&self.unjudged).map(|finding| &finding.phrase)
    }

    /// The verdict in a word.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.failed.len(), self.unjudged.len(), self.kept) {
            (1.., ..) => Outcome::Fail,
            (0, 0, 1..) => Outcome::Pass,
            // Nothing was judged, or something could not be.
            _ => Outcome::Undecided,
        }
    }

    /// Whether at least one figure was judged, and all were, and none exceeds its limit.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.outcome() == Outcome::Pass
    }
}

/// Judges the run by its limits.
#[must_use]
pub fn evaluate(run: &Run) -> Judgement {
    let mut judgement = Judgement::default();
    for limit in &run.limits {
        let is_met = |series: &Series| {
            is_about(limit.subject.as_deref(), series.experiment.name(), &series.subject, series.quantity)
        };
        let mut met = run.series.iter().enumerate().filter(|(_, series)| is_met(series)).peekable();
        if met.peek().is_none() {
            let text = format!("nothing was measured that the limit {} is about.", sanitize(&limit.to_string()));
            judgement.add(None, Some(Phrase::new(Level::Unjudged, text)));
        }
        met.for_each(|(place, series)| judgement.add(Some(place), phrase(run, limit, series)));
    }
    judgement
}

/// What is said of a series, unless it keeps the limit.
fn phrase(run: &Run, limit: &Limit, series: &Series) -> Option<Phrase> {
    let Series { summary, .. } = series;
    let line = |state: &str| {
        let (figure, above) = (limit.figure.name(), spoken::exact(limit.above_ns));
        format!("{figure} of {} {state}, limit {above}.", name(run, series))
    };
    let known = limit.figure.figure(summary);
    let least = known.or_else(|| at_least(limit.figure, summary));
    match (known, least.filter(|ns| *ns > limit.above_ns as f64)) {
        (_, Some(ns)) => {
            let is = if known.is_some() { "is" } else { "is at least" };
            Some(Phrase::new(Level::Exceeded, line(&format!("{is} {}", units::duration_fine(ns)))))
        }
        (Some(_), None) => None,
        (None, None) => {
            let text = line(&format!("cannot be judged from {} samples", units::count(summary.count)));
            let remedy = format!("take {} samples", units::count(needed(limit.figure)));
            Some(Phrase::new(Level::Unjudged, text).remedy(remedy))
        }
    }
}

/// A lower bound of a percentile that has too few samples: a lower percentile, or the smallest sample.
fn at_least(key: Key, summary: &Summary) -> Option<f64> {
    const FALLING: [Key; 5] = [Key::P999, Key::P99, Key::P90, Key::P50, Key::Min];
    let place = FALLING.iter().position(|one| *one == key)?;
    FALLING[place + 1..].iter().find_map(|lower| lower.figure(summary))
}

/// Checks that limits are about something. Takes the subject of each and what there is: experiment, subject, quantity.
///
/// # Errors
/// The first that is about nothing, with the subjects that there are.
pub fn check<'a>(
    limits: impl IntoIterator<Item = Option<&'a str>>,
    there: &[(&'a str, &'a str, Quantity)],
) -> Result<(), Missing> {
    for subject in limits {
        let met = there.iter().any(|(experiment, name, quantity)| is_about(subject, experiment, name, *quantity));
        if !met {
            let subjects: BTreeSet<String> = there.iter().map(|(_, subject, _)| (*subject).to_owned()).collect();
            return Err(Missing { subject: subject.map(str::to_owned), subjects: subjects.into_iter().collect() });
        }
    }
    Ok(())
}

/// A limit that is about nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its subject; `None`: it names none, and there is no lateness.
    pub subject: Option<String>,
    /// What it could name.
    pub subjects: Vec<String>,
}

/// Whether a limit with this subject is about a series. A name is that of the subject, or of the experiment and the
/// subject: `ramp performance`. Without a name, a limit is about lateness.
pub(crate) fn is_about(pattern: Option<&str>, experiment: &str, subject: &str, quantity: Quantity) -> bool {
    match pattern {
        None => quantity.is_lateness(),
        Some(pattern) => like(pattern, subject) || like(pattern, &format!("{experiment} {subject}")),
    }
}

/// Whether a name matches a pattern in which `*` stands for any letters.
fn like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

/// The fewest samples that support a figure.
fn needed(key: Key) -> u64 {
    let quantile = match key {
        Key::P50 => Quantile::P50,
        Key::P90 => Quantile::P90,
        Key::P99 => Quantile::P99,
        Key::P999 => Quantile::P999,
        Key::Min | Key::Max | Key::Mean => return 1,
    };
    quantile.fewest_samples()
}

/// Which series: `nanosleep under fifo:40 (asked 100 µs)`.
fn name(run: &Run, series: &Series) -> String {
    let mut text = sanitize(&series.subject);
    if !series.conditions.is_empty() {
        text.push_str(&format!(" {}", under(&conditions(run, &series.conditions))));
    }
    let shown: Vec<String> =
        series.experiment.parameters().iter().map(|(name, value)| unbroken(&parameter(name, value))).collect();
    if shown.is_empty() { text } else { format!("{text} ({})", shown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*b", "abc", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("*", "", true),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(like(pattern, name), fits, "{pattern} {name}");
        }
    }

    /// A work loop is not late: only a limit that names it is about it.
    #[test]
    fn without_a_name_a_limit_is_about_lateness() {
        let about = |pattern, quantity| is_about(pattern, "ramp", "performance", quantity);
        for late in [Quantity::Overshoot, Quantity::Lateness, Quantity::PeriodJitter, Quantity::OneWay] {
            assert!(about(None, late), "{late:?}");
        }
        assert!(about(None, Quantity::RoundTrip));
        for other in [Quantity::Loop, Quantity::CallCost, Quantity::Away, Quantity::Settling, Quantity::Response] {
            assert!(!about(None, other), "{other:?}");
            assert!(about(Some("perf*"), other) && about(Some("ramp *"), other) && about(Some("*"), other));
            assert!(!about(Some("powersave"), other));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(name in "\\PC{0,10}", pattern in "[a*é]{0,6}") {
            let _ = like(&pattern, &name);
        }
    }
}
