//! Durations as they are typed and printed: `100us`, `1.5ms`, `2s`.
//!
//! In goes a number with a unit (`ns`, `us` or `µs`, `ms`, `s`, `m`, `h`), out comes a [`Duration`], exact to the nanosecond; and
//! back, in the shortest exact form. Refused, each with its reason: a number without a unit, an unknown unit, a sign, digits
//! finer than a nanosecond, and what does not fit a [`Duration`]. Zero is accepted: whether it makes sense is the caller's
//! business.
//!
//! Written here because the crates at hand do something else: `humantime` takes no decimal fractions, and `jiff` also takes
//! signs, `5us ago` and ISO 8601 forms, and neither says which unit is missing.

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
    /// Nothing was given.
    #[error("a duration is missing: a number with a unit, as in 100us, 1.5ms or 2s")]
    Empty,
    /// A number alone.
    #[error("{number} has no unit: {number}us, {number}ms, {number}s?")]
    NoUnit {
        /// The number, as typed.
        number: String,
    },
    /// A unit that is none.
    #[error("{typed}: {unit} is not a unit of time; accepted are ns, us (or \u{b5}s), ms, s, m and h")]
    UnknownUnit {
        /// The whole text.
        typed: String,
        /// What stood in the unit's place.
        unit: String,
    },
    /// A unit without a number, or a number that is none.
    #[error("{typed} is not a duration: a number with a unit is, as in 100us, 1.5ms or 2s")]
    NotANumber {
        /// The whole text.
        typed: String,
    },
    /// A minus sign.
    #[error("{typed} is negative: a duration is not")]
    Negative {
        /// The whole text.
        typed: String,
    },
    /// More decimals than nanoseconds have.
    #[error("{typed} is finer than a nanosecond, the finest that Linux clocks count")]
    TooFine {
        /// The whole text.
        typed: String,
    },
    /// More than fits.
    #[error("{typed} is too long: the longest duration is {} s", u64::MAX)]
    TooLong {
        /// The whole text.
        typed: String,
    },
}

/// Reads a duration: a decimal number and a unit, with or without a space between them.
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
    if unit.is_empty() {
        return Err(DurationError::NoUnit { number: number.to_owned() });
    }
    // Two code points look like the micro sign: U+00B5 and the Greek letter U+03BC.
    let unit_us = unit.replace('\u{3bc}', "\u{b5}");
    let Some((_, ns_per_unit)) = UNITS.iter().find(|(name, _)| *name == unit_us) else {
        return Err(DurationError::UnknownUnit { typed: whole(), unit: unit.to_owned() });
    };
    let too_long = || DurationError::TooLong { typed: whole() };
    let integer: u128 = if integer.is_empty() { 0 } else { integer.parse().map_err(|_| too_long())? };
    let mut ns = integer.checked_mul(*ns_per_unit).ok_or_else(too_long)?;
    let mut part = *ns_per_unit;
    // Digit by digit, so that any number of them is exact: what is carried is below one unit. A digit's worth need not be whole
    // (0.1 of 0.1 minute is, of 1 ns is not), so the remainder is carried in tenths.
    let mut remainder_scale: u128 = 1;
    let mut fraction_value: u128 = 0;
    for digit in fraction.trim_end_matches('0').bytes() {
        // Finer than 10^-18 of an hour is finer than a nanosecond whatever the digits.
        if remainder_scale > 1_000_000_000_000_000_000 {
            return Err(DurationError::TooFine { typed: whole() });
        }
        remainder_scale *= 10;
        fraction_value = fraction_value * 10 + u128::from(digit - b'0');
    }
    part *= fraction_value;
    if !part.is_multiple_of(remainder_scale) {
        return Err(DurationError::TooFine { typed: whole() });
    }
    ns = ns.checked_add(part / remainder_scale).ok_or_else(too_long)?;
    let seconds = u64::try_from(ns / 1_000_000_000).map_err(|_| too_long())?;
    Ok(Duration::new(seconds, (ns % 1_000_000_000) as u32))
}

/// A duration, displayed in the shortest form that [`parse_duration`] reads back exactly: `100us`, `1.5ms`, `2m`.
///
/// The number is never below one (`100ms`, not `0.1s`), and whole where that is as short. Zero is `0s`.
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
        // Nanoseconds are always exact, so there is always a form.
        f.pad(&shortest.unwrap_or_default())
    }
}

/// The number of units, with at most nine decimals, if that is exact.
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

/// [`ShortDuration`] as a `String`.
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
