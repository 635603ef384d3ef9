//! Limits on figures, for builds that must notice when a machine got later: `p99=200us`.
//!
//! In go limits and a run; out comes which series exceed them, and which cannot be judged: a percentile that too few
//! samples support is never counted as kept.

use std::fmt;
use std::str::FromStr;

use punctual_record::{Run, Summary};

/// A figure on which a limit can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The smallest.
    Min,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The largest.
    Max,
    /// Arithmetic mean.
    Mean,
}

impl Key {
    /// All keys with the names they go by, the usual one first.
    const NAMES: [(Self, &'static [&'static str]); 7] = [
        (Self::Min, &["min"]),
        (Self::P50, &["p50", "median"]),
        (Self::P90, &["p90"]),
        (Self::P99, &["p99"]),
        (Self::P999, &["p99.9", "p999"]),
        (Self::Max, &["max"]),
        (Self::Mean, &["mean"]),
    ];

    /// Its usual name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(key, _)| *key == self).map_or("", |(_, names)| names[0])
    }

    fn of(self, summary: &Summary) -> Option<f64> {
        let figure = match self {
            Self::Min => summary.min,
            Self::P50 => summary.p50,
            Self::P90 => summary.p90,
            Self::P99 => summary.p99,
            Self::P999 => summary.p999,
            Self::Max => summary.max,
            Self::Mean => return summary.mean.filter(|mean| mean.is_finite()),
        };
        figure.map(|ns| ns as f64)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit: a figure of any series above it is a failure; one equal to it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Which figure.
    pub key: Key,
    /// The largest value that is accepted, in ns.
    pub limit_ns: i64,
}

/// Why a limit was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No `=`.
    #[error("`{0}` is not FIGURE=DURATION, for instance `p99=200us`")]
    Form(String),
    /// A figure that is not known.
    #[error("`{0}` is no figure that can have a limit: min, p50, p90, p99, p99.9, max or mean")]
    Key(String),
    /// No duration.
    #[error("`{0}` is no duration: a number from 0 on and a unit (ns, us, ms, s), for instance `200us` or `1.5ms`")]
    Duration(String),
    /// A number without unit.
    #[error("`{0}` has no unit: write {0}ns, {0}us, {0}ms or {0}s")]
    Unit(String),
    /// Too long.
    #[error("`{0}` is too long a duration: 292 years are the most")]
    TooLong(String),
}

impl FromStr for Threshold {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (key, limit) = text.split_once('=').ok_or_else(|| ParseError::Form(text.to_owned()))?;
        let name = key.trim().to_ascii_lowercase();
        let known = Key::NAMES.iter().find(|(_, names)| names.contains(&name.as_str()));
        let (key, _) = known.ok_or_else(|| ParseError::Key(key.trim().to_owned()))?;
        Ok(Self { key: *key, limit_ns: duration(limit.trim())? })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
            .into_iter()
            .find(|(size, _)| self.limit_ns != 0 && self.limit_ns % size == 0)
            .map_or((self.limit_ns, "ns"), |(size, unit)| (self.limit_ns / size, unit));
        write!(f, "{}={number}{unit}", self.key)
    }
}

/// A duration in ns: decimal digits, at most one point, and a unit. What is finer than a nanosecond is refused.
pub(crate) fn duration(text: &str) -> Result<i64, ParseError> {
    let refused = || ParseError::Duration(text.to_owned());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let size: i128 = match unit.trim_start() {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" if number.parse::<f64>().is_ok() => return Err(ParseError::Unit(text.to_owned())),
        _ => return Err(refused()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 || number.ends_with('.') {
        return Err(refused());
    }
    let too_long = || ParseError::TooLong(text.to_owned());
    let whole: i128 = whole.parse().map_err(|_| too_long())?;
    let parts = 10_i128.pow(fraction.len() as u32);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| refused())? };
    if fraction * size % parts != 0 {
        return Err(refused());
    }
    let ns = whole.checked_mul(size).and_then(|ns| ns.checked_add(fraction * size / parts));
    ns.and_then(|ns| i64::try_from(ns).ok()).ok_or_else(too_long)
}

/// A series beyond a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceeded {
    /// Index in `Run::series`.
    pub series: usize,
    /// Which figure.
    pub key: Key,
    /// The limit in ns.
    pub limit_ns: i64,
    /// The figure in ns: an integer for all but the mean.
    pub value_ns: f64,
}

/// A series on which a limit cannot be judged, since the figure is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unjudged {
    /// Index in `Run::series`.
    pub series: usize,
    /// Which figure.
    pub key: Key,
    /// The limit in ns.
    pub limit_ns: i64,
    /// How many samples the series has.
    pub count: u64,
}

/// What became of the limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Beyond the limit.
    pub exceeded: Vec<Exceeded>,
    /// Cannot be judged.
    pub unjudged: Vec<Unjudged>,
    /// Figures that were judged and kept their limit.
    pub kept: usize,
}

impl Verdict {
    /// Whether at least one figure was judged, and all were, and none exceeds its limit.
    #[must_use]
    pub fn all_kept(&self) -> bool {
        self.kept > 0 && self.exceeded.is_empty() && self.unjudged.is_empty()
    }
}

/// Judges every series of `run` by every limit.
#[must_use]
pub fn evaluate(thresholds: &[Threshold], run: &Run) -> Verdict {
    let mut verdict = Verdict::default();
    for &Threshold { key, limit_ns } in thresholds {
        for (series, its) in run.series.iter().enumerate() {
            match key.of(&its.summary) {
                None => verdict.unjudged.push(Unjudged { series, key, limit_ns, count: its.summary.count }),
                Some(value_ns) if value_ns > limit_ns as f64 => {
                    verdict.exceeded.push(Exceeded { series, key, limit_ns, value_ns });
                }
                Some(_) => verdict.kept += 1,
            }
        }
    }
    verdict
}

mod text;
pub use text::render;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_read() {
        let read = |text: &str| text.parse::<Threshold>().map(|limit| (limit.key, limit.limit_ns));
        assert_eq!(read("p99=200us"), Ok((Key::P99, 200_000)));
        assert_eq!(read("p999=1.5ms"), Ok((Key::P999, 1_500_000)));
        assert_eq!(read("p99.9 = 1s"), Ok((Key::P999, 1_000_000_000)));
        assert_eq!(read("MAX=0ns"), Ok((Key::Max, 0)));
        assert_eq!(read("mean=10µs"), Ok((Key::Mean, 10_000)));
    }

    #[test]
    fn refusals_say_what_would_do() {
        let refusal = |text: &str| text.parse::<Threshold>().unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                "p99",
                "p95=1us",
                "p99=200",
                "p99=-5us",
                "p99=1.0.0us",
                "p99=.5us",
                "p99=0.5ns",
                "p99=",
                "p99=1h",
                "p99=99999999999s"
            ]
            .map(refusal)
            .join("\n")
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(limit_ns in 0i64..=i64::MAX, key in 0usize..7) {
            let limit = Threshold { key: Key::NAMES[key].0, limit_ns };
            prop_assert_eq!(limit.to_string().parse::<Threshold>(), Ok(limit));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Threshold>();
            let _ = format!("p99={text}").parse::<Threshold>();
        }
    }
}
