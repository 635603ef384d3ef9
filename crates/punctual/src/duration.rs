//! Durations as text: `100us`, `1.5ms`, `2s`.
//!
//! [`parse_duration`] reads a decimal number with a unit (`ns`, `us` or `µs`, `ms`, `s`, `m`, `h`), exact to the nanosecond.
//! [`format_duration`] prints the shortest exact form. [`parse_duration`] refuses a missing or unknown unit, a sign, and digits
//! below a nanosecond. It refuses a number beyond [`Duration`] too, each with its reason. Zero is accepted, and needs no unit;
//! the caller decides whether it makes sense.
//!
//! No crate fits: `humantime` takes no decimal fractions; `jiff` also takes signs, `5us ago` and ISO 8601. Neither names the missing
//! unit.

use std::fmt;
use std::time::Duration;

/// Units with their length in ns, longest first.
const UNITS: [(&str, u128); 7] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("\u{b5}s", 1000),
    ("ns", 1),
];

/// Why a duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is empty.
    #[error("expected a number with a unit (example: 100us, 1.5ms or 2s)")]
    Empty,
    /// A number without a unit.
    #[error("expected a unit (example: {number}us, {number}ms or {number}s)")]
    NoUnit {
        /// The number, as typed.
        number: String,
    },
    /// An unknown unit.
    #[error("unknown unit '{unit}': expected ns, us (or \u{b5}s), ms, s, m or h (example: 100us)")]
    UnknownUnit {
        /// The whole text.
        typed: String,
        /// The unknown unit.
        unit: String,
    },
    /// A unit without a number, or a malformed number.
    #[error("expected a number with a unit (example: 100us, 1.5ms or 2s)")]
    NotANumber {
        /// The whole text.
        typed: String,
    },
    /// A minus sign.
    #[error("expected a duration of zero or more (example: 100us)")]
    Negative {
        /// The whole text.
        typed: String,
    },
    /// Digits below a nanosecond.
    #[error("expected whole nanoseconds, the resolution of Linux clocks (example: 1ns)")]
    TooFine {
        /// The whole text.
        typed: String,
    },
    /// A number beyond [`Duration::MAX`].
    #[error("expected at most {} s (example: 1h)", u64::MAX)]
    TooLong {
        /// The whole text.
        typed: String,
    },
}

/// Parses a duration: a decimal number and a unit, with or without a space between them. 0 needs no unit.
pub fn parse_duration(typed: &str) -> Result<Duration, DurationError> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err(DurationError::Empty);
    }
    let whole = || typed.to_owned();
    if typed.starts_with(['-', '\u{2212}']) {
        return Err(DurationError::Negative { typed: whole() });
    }
    let end = typed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(typed.len());
    let (number, unit) = (&typed[..end], typed[end..].trim_start());
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (integer.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::NotANumber { typed: whole() });
    }
    if unit.is_empty() && number == "0" {
        return Ok(Duration::ZERO);
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit { number: number.to_owned() });
    }
    // Two code points look like the micro sign: U+00B5 and the Greek letter U+03BC.
    let same = if unit == "\u{3bc}s" { "\u{b5}s" } else { unit };
    let Some((_, ns_per_unit)) = UNITS.iter().find(|(name, _)| *name == same) else {
        return Err(DurationError::UnknownUnit { typed: whole(), unit: unit.to_owned() });
    };
    let too_long = || DurationError::TooLong { typed: whole() };
    let integer: u128 = if integer.is_empty() { 0 } else { integer.parse().map_err(|_| too_long())? };
    let ns = integer.checked_mul(*ns_per_unit).ok_or_else(too_long)?;
    // In whole numbers, so that any number of digits is exact. The 20th digit of an hour is below a nanosecond, whatever it is.
    let fraction = Some(fraction.trim_end_matches('0')).filter(|digits| digits.len() < 20);
    let part = fraction.and_then(|digits| {
        let (part, scale) = (ns_per_unit * digits.parse().unwrap_or(0), 10_u128.pow(digits.len() as u32));
        part.is_multiple_of(scale).then_some(part / scale)
    });
    let part = part.ok_or_else(|| DurationError::TooFine { typed: whole() })?;
    let ns = ns.checked_add(part).ok_or_else(too_long)?;
    let seconds = u64::try_from(ns / 1_000_000_000).map_err(|_| too_long())?;
    Ok(Duration::new(seconds, (ns % 1_000_000_000) as u32))
}

/// Displays a duration in the shortest form that [`parse_duration`] reads back exactly: `100us`, `1.5ms`, `2m`.
///
/// The number is at least one (`100ms`, not `0.1s`), and whole if that is as short. Zero is `0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortDuration(pub Duration);

impl fmt::Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        if ns == 0 {
            return f.pad("0s");
        }
        let shortest = UNITS
            .iter()
            .filter(|(unit, ns_per_unit)| unit.is_ascii() && ns >= *ns_per_unit)
            .filter_map(|&(unit, ns_per_unit)| exact(ns, unit, ns_per_unit))
            .min_by_key(|form| (form.len(), form.contains('.')));
        // The form in nanoseconds is always exact.
        f.pad(&shortest.unwrap_or_default())
    }
}

/// The number with at most nine decimals and its unit, if exact.
fn exact(ns: u128, unit: &str, ns_per_unit: u128) -> Option<String> {
    const DECIMALS: u128 = 1_000_000_000;
    let rest = (ns % ns_per_unit) * DECIMALS;
    if !rest.is_multiple_of(ns_per_unit) {
        return None;
    }
    let decimals = format!("{:09}", rest / ns_per_unit);
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{}{point}{decimals}{unit}", ns / ns_per_unit))
}

/// Formats a duration as [`ShortDuration`] does.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    ShortDuration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads() {
        for (typed, ns) in [
            ("10ns", 10),
            ("100us", 100_000),
            ("100\u{b5}s", 100_000),
            ("100\u{3bc}s", 100_000),
            ("1.5ms", 1_500_000),
            (" 1.5 ms ", 1_500_000),
            (".5us", 500),
            ("0us", 0),
            ("0", 0),
            ("0.000000001s", 1),
            ("0.10000000000000000000000000000s", 100_000_000),
            ("2s", 2_000_000_000),
            ("3m", 180_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration(typed).unwrap(), Duration::from_nanos(ns), "{typed}");
        }
    }

    #[test]
    fn prints_the_shortest_exact_form() {
        for (ns, printed) in [
            (0, "0s"),
            (1, "1ns"),
            (1500, "1.5us"),
            (100_000, "100us"),
            (100_000_000, "100ms"),
            (50_000, "50us"),
            (1_500_000, "1.5ms"),
            (1_000_000_000, "1s"),
            (90_000_000_000, "90s"),
            (120_000_000_000, "2m"),
            (1_234_567, "1234567ns"),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(ns)), printed);
        }
    }

    #[test]
    fn refuses() {
        let said: Vec<String> = [
            "",
            "10",
            "10.5",
            "-5us",
            "5 parsecs",
            "5us 3ns",
            "us",
            "1.2.3s",
            ".s",
            "0.5ns",
            "1e3us",
            "20000000000000000000s",
            "340282366920938463463374607431768211456ns",
        ]
        .iter()
        .map(|typed| parse_duration(typed).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(seconds: u64, nanos in 0_u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn short_ones_too(value in 0_u64..10_000, power in 0_u32..12) {
            let duration = Duration::from_nanos(value * 10_u64.pow(power));
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn anything_typed_is_answered(typed in ".{0,40}") {
            let _ = parse_duration(&typed);
        }

        #[test]
        fn numbers_of_any_length_are_answered(typed in "[0-9]{0,60}\\.?[0-9]{0,60}(ns|us|ms|s|m|h)") {
            let _ = parse_duration(&typed);
        }
    }
}
