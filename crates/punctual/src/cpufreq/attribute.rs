//! The changeable settings of a policy, their valid values, and a frequency as people write it: `2.2GHz`.

use std::fmt;

use crate::restore::Setting;
use crate::restore::form::{FileForm, Form};

/// Longest value: the kernel's governor names have 15 characters (`CPUFREQ_NAME_LEN`), preferences 19.
const LONGEST_VALUE: usize = 32;

/// The files of a policy (Documentation/admin-guide/pm/cpufreq.rst). A frequency is digits; a name is lower-case
/// letters, digits, `-` and `_`. Since Linux 5.4 the kernel applies the limits in a worker thread.
pub(super) static FORM: Form = Form {
    what: "frequency settings",
    magic: "punctual-cpufreq-1",
    journal: "journal",
    lock: "lock",
    folder: "sys/devices/system/cpu/cpufreq",
    item: "policy",
    files: &[
        FileForm { name: "scaling_governor", accepts: is_name, is_taken_up_later: false },
        FileForm { name: "scaling_setspeed", accepts: is_frequency, is_taken_up_later: false },
        FileForm { name: "energy_performance_preference", accepts: is_name, is_taken_up_later: false },
        FileForm { name: "scaling_min_freq", accepts: is_frequency, is_taken_up_later: true },
        FileForm { name: "scaling_max_freq", accepts: is_frequency, is_taken_up_later: true },
    ],
    bytes: "a-z0-9_-",
};

fn is_name(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    !value.is_empty() && value.len() <= LONGEST_VALUE && value.bytes().all(plain)
}

fn is_frequency(value: &str) -> bool {
    !value.is_empty() && value.len() <= 10 && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A setting of a policy: one file of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// `scaling_governor`: the governor, which chooses the frequency.
    Governor,
    /// `scaling_setspeed`: the frequency under the governor `userspace`, in kHz.
    SetSpeed,
    /// `energy_performance_preference`: the hardware's preference; a word, or 0 (performance) to 255 (energy).
    Preference,
    /// `scaling_min_freq`: the lowest frequency allowed, in kHz.
    MinFrequency,
    /// `scaling_max_freq`: the highest frequency allowed, in kHz.
    MaxFrequency,
}

impl Attribute {
    /// The name of its file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Governor => "scaling_governor",
            Self::SetSpeed => "scaling_setspeed",
            Self::Preference => "energy_performance_preference",
            Self::MinFrequency => "scaling_min_freq",
            Self::MaxFrequency => "scaling_max_freq",
        }
    }

    /// Whether a value has the form of this attribute.
    pub(crate) fn accepts(self, value: &str) -> bool {
        (self.form().accepts)(value)
    }

    /// The form of its file.
    pub(super) fn form(self) -> &'static FileForm {
        match self {
            Self::Governor => &FORM.files[0],
            Self::SetSpeed => &FORM.files[1],
            Self::Preference => &FORM.files[2],
            Self::MinFrequency => &FORM.files[3],
            Self::MaxFrequency => &FORM.files[4],
        }
    }

    /// This attribute of a policy with a value; `None` if the form is invalid.
    pub(super) fn setting(self, policy: usize, value: &str) -> Option<Setting> {
        Setting::new(&FORM, self.file(), policy, value)
    }

    /// Attributes that change with this one. A change of governor also changes the speed under `userspace` and, with
    /// drivers that choose in hardware, the preference.
    #[must_use]
    pub(super) const fn takes_along(self) -> &'static [Self] {
        match self {
            Self::Governor => &[Self::Governor, Self::SetSpeed, Self::Preference],
            Self::SetSpeed => &[Self::SetSpeed],
            Self::Preference => &[Self::Preference],
            Self::MinFrequency => &[Self::MinFrequency],
            Self::MaxFrequency => &[Self::MaxFrequency],
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.file())
    }
}

/// The accepted forms of a frequency.
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
