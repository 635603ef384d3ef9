//! Limits on how much worse a figure may become: `p99 worse by 10%`.
//!
//! In go limits and a [`Comparison`]; out comes which figures are beyond them, which keep them, and which cannot be judged: those that could
//! not be compared, and those that scatter so much that a change by the limit could hide in them. What cannot be judged is never
//! counted as kept.

use std::fmt;
use std::str::FromStr;

use crate::threshold::duration;

use super::{Comparison, Difference, Figure, FigureComparison, Verdict};

/// How much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Of the old figure; 0.1 is 10 %.
    Share(f64),
    /// Nanoseconds.
    Ns(i64),
}

/// A limit: a figure that is shown to be worse, by this much or more, is a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Which figures; all of them where none is named.
    pub figure: Option<Figure>,
    /// Which subjects, with `*` for any letters; all where none is named.
    pub subject: Option<String>,
    /// By how much.
    pub amount: Amount,
}

/// Why a limit was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not of the form.
    #[error(
        "`{0}` is not 'FIGURE [of SUBJECT] worse by AMOUNT', for instance 'p99 worse by 10%' or 'p50 of futex* worse by 5us'"
    )]
    Form(String),
    /// A figure that is not compared.
    #[error("`{0}` is no figure that is compared: p50, p99, cpu or any")]
    Figure(String),
    /// Neither a share nor a duration.
    #[error("`{0}` is neither a share nor a duration above zero; write for instance 10% or 5us")]
    Amount(String),
    /// `better`.
    #[error("`{0}`: a limit says how much worse a figure may become; what becomes better is never a failure")]
    Better(String),
}

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (figure, subject, amount) = match words.as_slice() {
            [figure, "worse", "by", amount @ ..] if !amount.is_empty() => (*figure, None, amount),
            [figure, "of", _, "worse", "by", amount @ ..] if !amount.is_empty() => {
                // As it was typed: subjects are not all in lower case.
                (*figure, text.split_whitespace().nth(2).map(str::to_owned), amount)
            }
            [.., "better", "by", _] => return Err(ParseError::Better(text.to_owned())),
            _ => return Err(ParseError::Form(text.to_owned())),
        };
        let figure = match figure {
            "p50" | "median" => Some(Figure::P50),
            "p99" => Some(Figure::P99),
            "cpu" => Some(Figure::Cpu),
            "any" => None,
            _ => return Err(ParseError::Figure(figure.to_owned())),
        };
        Ok(Self { figure, subject, amount: parse_amount(&amount.concat())? })
    }
}

fn parse_amount(text: &str) -> Result<Amount, ParseError> {
    let refused = || ParseError::Amount(text.to_owned());
    if let Some(number) = text.strip_suffix('%') {
        let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let share = number.parse::<f64>().ok().filter(|_| digits).ok_or_else(refused)? / 100.0;
        return if share > 0.0 && share <= 1e6 { Ok(Amount::Share(share)) } else { Err(refused()) };
    }
    match duration(text) {
        Ok(ns) if ns > 0 => Ok(Amount::Ns(ns)),
        _ => Err(refused()),
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = self.figure.map_or("any", |figure| if figure == Figure::Cpu { "cpu" } else { figure.name() });
        f.write_str(figure)?;
        if let Some(subject) = &self.subject {
            write!(f, " of {subject}")?;
        }
        match self.amount {
            Amount::Share(share) => write!(f, " worse by {}%", share * 100.0),
            Amount::Ns(ns) => write!(f, " worse by {ns}ns"),
        }
    }
}

impl Limit {
    fn is_about(&self, subject: &str, figure: Figure) -> bool {
        self.figure.is_none_or(|its| its == figure) && self.subject.as_deref().is_none_or(|its| like(its, subject))
    }
}

/// Whether a name fits a pattern in which `*` stands for any letters.
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

/// A figure beyond a limit, or one that cannot be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The limit.
    pub limit: Limit,
    /// Index in [`Comparison::series`]; none where it is about something that only the old runs have, or about nothing at all.
    pub series: Option<usize>,
    /// Which figure.
    pub figure: Option<Figure>,
    /// By how much it is worse, or why it cannot be judged.
    pub what: What,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Shown to be worse by this.
    Worse(Difference),
    /// A change by the limit could hide in what the figure scatters by.
    Blind(Difference),
    /// Not comparable.
    Unknown(String),
}

/// What became of the limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Beyond their limit.
    pub failed: Vec<Finding>,
    /// Cannot be judged.
    pub unjudged: Vec<Finding>,
    /// Figures that keep their limit.
    pub kept: usize,
}

impl Judgement {
    /// Whether at least one figure was judged, and all were, and none is beyond its limit.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.kept > 0 && self.failed.is_empty() && self.unjudged.is_empty()
    }
}

/// Judges a comparison by every limit.
#[must_use]
pub fn evaluate(limits: &[Limit], comparison: &Comparison) -> Judgement {
    let mut judgement = Judgement::default();
    for limit in limits {
        let mut met = 0;
        for (place, series) in comparison.series.iter().enumerate() {
            for figure in series.figures.iter().filter(|figure| limit.is_about(&series.subject, figure.figure)) {
                met += 1;
                let what = judge(limit, figure);
                let found =
                    |what| Finding { limit: limit.clone(), series: Some(place), figure: Some(figure.figure), what };
                match what {
                    None => judgement.kept += 1,
                    Some(what @ What::Worse(_)) => judgement.failed.push(found(what)),
                    Some(what) => judgement.unjudged.push(found(what)),
                }
            }
        }
        let about = |subject: &str| limit.subject.as_deref().is_none_or(|its| like(its, subject));
        for missing in comparison.unmatched.iter().filter(|missing| about(&missing.subject)) {
            // What only the new runs have cannot have become worse.
            if missing.why == super::matching::ONLY_NEW {
                continue;
            }
            met += 1;
            let why = format!("{} under {}: {}", missing.subject, missing.conditions, missing.why);
            judgement.unjudged.push(nowhere(limit, why));
        }
        if met == 0 {
            judgement.unjudged.push(nowhere(limit, "nothing that it is about is in both old and new runs".into()));
        }
    }
    judgement
}

fn nowhere(limit: &Limit, why: String) -> Finding {
    Finding { limit: limit.clone(), series: None, figure: None, what: What::Unknown(why) }
}

/// What is to be said of a figure; nothing where it keeps the limit.
fn judge(limit: &Limit, figure: &FigureComparison) -> Option<What> {
    let Some(difference) = figure.difference else {
        return Some(What::Unknown(figure.why.clone().unwrap_or_default()));
    };
    let (value, half) = match limit.amount {
        Amount::Ns(_) => (difference.by_ns.value, difference.by_ns.high - difference.by_ns.value),
        Amount::Share(_) => match difference.by_share {
            Some(share) => (share.value, share.high - share.value),
            None => return Some(What::Unknown("the old figure is not above zero: it has no shares".into())),
        },
    };
    let bound = match limit.amount {
        Amount::Ns(ns) => ns as f64,
        Amount::Share(share) => share,
    };
    match figure.verdict {
        Verdict::Worse if value >= bound => Some(What::Worse(difference)),
        Verdict::Worse | Verdict::Better => None,
        Verdict::NoDifference if half > bound => Some(What::Blind(difference)),
        Verdict::NoDifference => None,
        Verdict::NotComparable => Some(What::Unknown(figure.why.clone().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Option<Figure>, Option<String>, Amount) {
        let limit: Limit = text.parse().unwrap();
        (limit.figure, limit.subject, limit.amount)
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(read("p99 worse by 10%"), (Some(Figure::P99), None, Amount::Share(0.1)));
        assert_eq!(read(" Median  worse by 12.5 % "), (Some(Figure::P50), None, Amount::Share(0.125)));
        assert_eq!(read("any worse by 5us"), (None, None, Amount::Ns(5000)));
        let some = Some("Clock*".to_owned());
        assert_eq!(read("cpu of Clock* worse by 1.5 ms"), (Some(Figure::Cpu), some, Amount::Ns(1_500_000)));
    }

    #[test]
    fn refusals_say_what_would_do() {
        let refusal = |text: &str| text.parse::<Limit>().unwrap_err().to_string();
        for (text, word) in [
            ("", "p99 worse by 10%"),
            ("p99", "p99 worse by 10%"),
            ("p99>10%", "p99 worse by 10%"),
            ("p99 worse by", "p99 worse by 10%"),
            ("p98 worse by 10%", "p50, p99, cpu or any"),
            ("p99 worse by 10", "10% or 5us"),
            ("p99 worse by 0%", "10% or 5us"),
            ("p99 worse by -5%", "10% or 5us"),
            ("p99 worse by NaN%", "10% or 5us"),
            ("p99 worse by 0us", "10% or 5us"),
            ("p99 worse by ten%", "10% or 5us"),
            ("p99 better by 10%", "never a failure"),
        ] {
            assert!(refusal(text).contains(word), "{text}: {}", refusal(text));
        }
    }

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

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,40}", name in "\\PC{0,10}", pattern in "[a*é]{0,6}") {
            let _ = text.parse::<Limit>();
            let _ = format!("p99 worse by {text}").parse::<Limit>();
            let _ = like(&pattern, &name);
        }
    }
}
