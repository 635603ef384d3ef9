//! Values on the command line and what is refused of them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use punctual::conditions::InvalidValue;
use punctual::cpufreq::{FREQUENCY, parse_frequency};
use punctual::{Condition, parse_duration};
use punctual_lab::polls::MOST_POLLS;

/// Longest duration: a year. Whatever is computed of it fits 64 bits of nanoseconds.
const LONGEST: Duration = Duration::from_secs(8760 * 3600);

/// The highest number of a process: PID_MAX_LIMIT of include/linux/threads.h.
const HIGHEST_PROCESS: i32 = 4_194_304;

/// A duration with a unit, above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text, Duration::from_nanos(1), LONGEST, "from 1ns to 8760h (example: 100us)")
}

/// From one signal to the next: handling one takes microseconds.
pub(crate) fn signal_period(text: &str) -> Result<Duration, String> {
    let least = Duration::from_micros(10);
    duration(text, least, Duration::from_secs(3600), "from 10us to 1h (example: 50us)")
}

/// A duration between two others; `range`: these in words, with an example.
fn duration(text: &str, least: Duration, most: Duration, range: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    if (least..=most).contains(&duration) { Ok(duration) } else { Err(format!("expected a duration {range}")) }
}

/// The number of a process.
pub(crate) fn process(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| (1..=HIGHEST_PROCESS).contains(number));
    number.ok_or_else(|| format!("expected a process ID from 1 to {HIGHEST_PROCESS} (example: 1234)"))
}

/// The name of a governor.
pub(crate) fn governor(text: &str) -> Result<String, InvalidValue> {
    Condition::GOVERNOR.parse(text).map(|governor| governor.to_string())
}

/// An integer between two others. `example`: a value that is usual.
pub(crate) fn integer<T>(
    least: T,
    most: T,
    example: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("expected an integer from {least} to {most} (example: {example})"))
    }
}

/// A frequency with its unit, in kHz.
pub(crate) fn frequency(text: &str) -> Result<u64, String> {
    parse_frequency(text).ok_or_else(|| format!("expected {FREQUENCY}"))
}

/// A number of competitors for one CPU.
pub(crate) fn competitors(text: &str) -> Result<u32, String> {
    integer(0, punctual_lab::crowd::MOST, "2")(text)
}

/// A number of polls before a yield: 0 (never yields), or a count.
pub(crate) fn polls(text: &str) -> Result<u32, String> {
    let number = if text == "0" { Some(0) } else { count(text).ok().and_then(|n| u32::try_from(n).ok()) };
    let most = MOST_POLLS / 1_000_000;
    let refused = || format!("expected an integer from 0 (never yields) to {most}M (example: 10k)");
    number.filter(|n| *n <= MOST_POLLS).ok_or_else(refused)
}

/// The items, each once: the first of those that are the same.
pub(crate) fn unique<T>(items: impl IntoIterator<Item = T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.iter().any(|known| is_same(known, &item)) {
            kept.push(item);
        }
    }
    kept
}

/// The values in their order, each once.
pub(crate) fn sorted<T: Ord + Copy>(values: &[T]) -> Vec<T> {
    BTreeSet::from_iter(values.iter().copied()).into_iter().collect()
}

/// One of a few values, each with its name and a line of help.
pub(crate) fn one_of<T: Clone + Send + Sync>(
    values: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|typed| {
        let value = values.iter().find(|(name, ..)| *name == typed);
        value.map(|(.., value)| value.clone()).ok_or("expected one of the names")
    })
}

/// Largest count. Of the quickest operation (some 10 ns) this many take ten seconds, of a wait of 1 ms eleven days.
const MOST: u64 = 1_000_000_000;

/// A number that may end in k or M.
pub(crate) fn count(text: &str) -> Result<u64, &'static str> {
    let number = in_units(text, &[('k', 1_000), ('K', 1_000), ('M', 1_000_000)]).filter(|n| (1..=MOST).contains(n));
    number.ok_or("expected an integer from 1 to 1000M (example: 500, 10k or 1M)")
}

/// An integer, which is multiplied by the number of the letter that follows it, if one does.
pub(crate) fn in_units(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let unit = units.iter().find_map(|(letter, times)| Some((text.strip_suffix(*letter)?, *times)));
    let (digits, times) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(count("500"), Ok(500));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("1M"), Ok(1_000_000));
        assert_eq!(count("1000M"), Ok(1_000_000_000));
        let much = ["99999999999999999999", "99999999999999999M", "18446744073709551615", "1000000001"];
        for bad in ["0", "-1", "", "k", "1.5", "10x"].into_iter().chain(much) {
            assert!(count(bad).is_err_and(|said| said.contains("from 1 to 1000M")), "{bad}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_answered_with_the_range() {
        let nice = integer(-20, 19, "-5");
        assert_eq!(nice("-5"), Ok(-5));
        for bad in ["x", "", "-21", "20", "99999999999", "1.5"] {
            let said = nice(bad).unwrap_err();
            assert_eq!(said, "expected an integer from -20 to 19 (example: -5)");
        }
        assert_eq!(positive_duration("8760h"), Ok(LONGEST));
        for bad in ["0", "0us", "8761h", "2562048h"] {
            assert!(positive_duration(bad).is_err_and(|said| said.contains("from 1ns to 8760h")), "{bad}");
        }
        assert!(positive_duration("9999999999999999999s").is_err());
        assert_eq!(process("0").unwrap_err(), "expected a process ID from 1 to 4194304 (example: 1234)");
    }
}
