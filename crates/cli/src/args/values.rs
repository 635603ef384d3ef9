//! Values on the command line and what is refused of them.

use std::time::Duration;

use punctual::parse_duration;

/// A duration with a unit, above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text).map_err(|e| e.to_string())? {
        Duration::ZERO => Err("must be longer than nothing; the shortest is 1ns".into()),
        duration => Ok(duration),
    }
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
    let most = punctual_lab::crowd::MOST;
    text.parse().ok().filter(|n| *n <= most).ok_or_else(|| format!("'{text}' is no number from 0 to {most}"))
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

/// A number that may end in k or M.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wanted = || format!("'{text}' is no count; a whole number above 0 is, such as 500, 10k or 1M");
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let n: u64 = digits.parse().map_err(|_| wanted())?;
    n.checked_mul(times).filter(|n| *n > 0).ok_or_else(wanted)
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
        for bad in ["0", "-1", "", "k", "1.5", "99999999999999999999", "99999999999999999M", "10x"] {
            assert!(count(bad).is_err(), "{bad}");
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
