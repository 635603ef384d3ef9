//! A frequency as people write it: `2.2GHz`.

/// The accepted forms.
pub const FREQUENCY: &str = "a frequency in kHz, MHz or GHz below 1THz (example: 2.2GHz)";

/// A frequency with its unit, in kHz.
#[must_use]
pub fn parse_frequency(text: &str) -> Option<u64> {
    let units = [("GHz", 1e6), ("MHz", 1e3), ("kHz", 1.0)];
    let (digits, times) = units.iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, *times)))?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = digits.trim().parse().ok().filter(|_| plain)?;
    let khz = (number * times).round();
    // No CPU reaches 1 THz.
    (1.0..1e9).contains(&khz).then_some(khz as u64)
}

/// A frequency in the largest unit that gives a whole number, otherwise in GHz with decimals: `2.2GHz`.
#[must_use]
pub fn format_frequency(khz: u64) -> String {
    match khz {
        _ if !khz.is_multiple_of(1000) => format!("{khz}kHz"),
        _ if khz >= 1_000_000 => format!("{}GHz", khz as f64 / 1e6),
        _ => format!("{}MHz", khz / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_need_a_unit_and_come_back_as_typed() {
        for (typed, khz) in [("2.2GHz", 2_200_000), ("800MHz", 800_000), ("1234567kHz", 1_234_567), ("3GHz", 3_000_000)]
        {
            assert_eq!(parse_frequency(typed), Some(khz));
            assert_eq!(format_frequency(khz), typed);
        }
        for bad in ["", "2200", "0GHz", "-1GHz", "1e3MHz", "infGHz", "GHz", "9999999GHz", "max"] {
            assert_eq!(parse_frequency(bad), None, "{bad}");
        }
    }
}
