//! Values on the command line and what is refused of them.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use punctual::parse_duration;

/// Longest duration: a year. Whatever is computed of it fits 64 bits of nanoseconds.
const LONGEST: Duration = Duration::from_secs(8760 * 3600);

/// A duration with a unit, above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|e| e.to_string())? {
        Duration::ZERO => Err("must be longer than nothing; the shortest is 1ns".into()),
        duration if duration > LONGEST => Err("expected a duration from 1ns to 8760h, a year (example: 20s)".into()),
        duration => Ok(duration),
    }
}

/// An integer between two others. `example` is the flag with a value that is usual.
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

/// A nice value.
pub(crate) fn nice(text: &str) -> Result<i32, String> {
    integer(-20, 19, "--nice -5")(text)
}

/// A timer slack: 1 ns to what the kernel's number holds.
pub(crate) fn timer_slack(text: &str) -> Result<Duration, String> {
    let asked = positive_duration(text).map_err(|e| match parse_duration(text) {
        Ok(Duration::ZERO) => "0 would mean the default to the kernel (prctl(2)); the least slack is 1ns".to_owned(),
        _ => e,
    })?;
    if asked > Duration::from_secs(1) {
        Err("a slack of more than 1s makes no timer; usual is 50us".into())
    } else {
        Ok(asked)
    }
}

/// A latency for /dev/cpu_dma_latency, which counts in microseconds.
pub(crate) fn dma_latency(text: &str) -> Result<Duration, String> {
    let asked = parse_duration(text).map_err(|e| e.to_string())?;
    if asked.subsec_nanos() % 1000 != 0 {
        return Err("the kernel counts this in whole microseconds".into());
    }
    // 2000 s is PM_QOS_CPU_LATENCY_DEFAULT_VALUE of the kernel: no constraint at all.
    if asked >= Duration::from_secs(2000) {
        Err("2000s and more mean no limit to the kernel".into())
    } else {
        Ok(asked)
    }
}

/// A number of competitors for one CPU.
pub(crate) fn competitors(text: &str) -> Result<u32, String> {
    integer(0, punctual_lab::crowd::MOST, "--competitors 2")(text)
}

/// A number of polls before a yield: 0 (never yields), or a count.
pub(crate) fn polls(text: &str) -> Result<u32, String> {
    if text == "0" {
        return Ok(0);
    }
    let most = punctual_lab::polling::MOST_POLLS;
    let wanted = || {
        format!("'{text}' is no number of polls; 0 (never yields), 100, 10k and so on are, up to {}M", most / 1_000_000)
    };
    count(text).ok().and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= most).ok_or_else(wanted)
}

/// Largest count: of the quickest operation (some 10 ns) this many take ten seconds, of a wait of 1 ms eleven days.
const MOST: u64 = 1_000_000_000;

/// A number that may end in k or M.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wanted = || "expected a whole number from 1 to 1000M (example: 500, 10k or 1M)".to_owned();
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let n: u64 = digits.parse().map_err(|_| wanted())?;
    n.checked_mul(times).filter(|n| (1..=MOST).contains(n)).ok_or_else(wanted)
}

/// A CPU frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frequency {
    /// The highest that the limits allow.
    Max,
    /// So many kHz.
    Khz(u64),
}

/// `max`, or a number with a unit.
pub(crate) fn frequency(text: &str) -> Result<Frequency, String> {
    let wanted =
        || format!("'{text}' is no frequency; max is, and a number with a unit, such as 2.2GHz, 800MHz or 2200000kHz");
    if text == "max" {
        return Ok(Frequency::Max);
    }
    let units = [("GHz", 1e6), ("MHz", 1e3), ("kHz", 1.0)];
    let (digits, times) =
        units.iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, *times))).ok_or_else(wanted)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.trim().parse().ok().filter(|_| plain).ok_or_else(wanted)?;
    let khz = (number * times).round();
    // 1 THz is no CPU's.
    if (1.0..1e9).contains(&khz) { Ok(Frequency::Khz(khz as u64)) } else { Err(wanted()) }
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
            assert!(count(bad).is_err_and(|e| e.contains("from 1 to 1000M")), "{bad}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_answered_with_the_range() {
        assert_eq!(nice("-5"), Ok(-5));
        for bad in ["x", "", "-21", "20", "99999999999", "1.5"] {
            let said = nice(bad).unwrap_err();
            assert_eq!(said, "expected an integer from -20 to 19 (example: --nice -5)");
        }
        assert_eq!(positive_duration("8760h"), Ok(LONGEST));
        for bad in ["8761h", "2562048h", "9999999999999999999s"] {
            assert!(positive_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn frequencies_need_a_unit() {
        assert_eq!(frequency("2.2GHz"), Ok(Frequency::Khz(2_200_000)));
        assert_eq!(frequency("800MHz"), Ok(Frequency::Khz(800_000)));
        assert_eq!(frequency("max"), Ok(Frequency::Max));
        for bad in ["", "2200", "0GHz", "-1GHz", "1e3MHz", "infGHz", "GHz", "9999999GHz"] {
            assert!(frequency(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn slack_of_zero_is_explained() {
        assert!(timer_slack("0ns").is_err_and(|e| e.contains("default")));
        assert!(timer_slack("1ns").is_ok());
    }
}
