//! The settings of a policy that can be changed, and what values they may have.

use std::fmt;

/// Highest policy number: policies are numbered by CPU, and the largest `CONFIG_NR_CPUS` is 8192.
pub(super) const HIGHEST_POLICY: usize = 8191;
/// Longest value: the kernel's names of governors have 15 characters (`CPUFREQ_NAME_LEN`), of preferences 19.
const LONGEST_VALUE: usize = 32;

/// A setting of a policy, one file of its folder (Documentation/admin-guide/pm/cpufreq.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribute {
    /// `scaling_governor`: who chooses the frequency.
    Governor,
    /// `scaling_setspeed`: the frequency that the governor `userspace` keeps, in kHz.
    SetSpeed,
    /// `energy_performance_preference`: what the hardware is to prefer; a word, or 0 (performance) to 255 (energy).
    Preference,
    /// `scaling_min_freq`: the lowest frequency allowed, in kHz.
    MinFrequency,
    /// `scaling_max_freq`: the highest frequency allowed, in kHz.
    MaxFrequency,
}

impl Attribute {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Governor, Self::SetSpeed, Self::Preference, Self::MinFrequency, Self::MaxFrequency];

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

    /// The attribute of a file's name.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attribute| attribute.file() == name)
    }

    /// Whether `value` has the form that this attribute takes: a frequency is digits, a name is lower-case letters, digits,
    /// `-` and `_`. Nothing else can get into a file of /sys through this module.
    #[must_use]
    pub fn accepts(self, value: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        match self {
            _ if value.is_empty() || value.len() > LONGEST_VALUE => false,
            Self::Governor | Self::Preference => value.bytes().all(plain),
            Self::SetSpeed | Self::MinFrequency | Self::MaxFrequency => {
                value.len() <= 10 && value.bytes().all(|byte| byte.is_ascii_digit())
            }
        }
    }

    /// Whether the kernel takes up a write later, in a worker thread, and shows the value from then on only: the limits since Linux 5.4.
    #[must_use]
    pub(super) const fn is_taken_up_later(self) -> bool {
        matches!(self, Self::MinFrequency | Self::MaxFrequency)
    }

    /// What changes with it: switching governors also changes the speed that `userspace` keeps and, with drivers that choose in hardware,
    /// the preference.
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

/// One attribute of one policy, and a value for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setting {
    /// Number of the policy: its folder is `policyN`.
    pub policy: usize,
    /// Which.
    pub attribute: Attribute,
    /// The value, as it stands in the file.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy{} {} {}", self.policy, self.attribute, self.value)
    }
}

impl Setting {
    /// Reads what [`Display`](fmt::Display) writes, and nothing else: a number for the policy, a known file, a plain value.
    #[must_use]
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (policy, file, value) = (words.next()?, words.next()?, words.next()?);
        let number = policy.strip_prefix("policy")?;
        let plain = !number.is_empty() && number.len() <= 4 && number.bytes().all(|b| b.is_ascii_digit());
        let policy: usize = number.parse().ok().filter(|n| plain && *n <= HIGHEST_POLICY)?;
        let attribute = Attribute::of_file(file)?;
        let fits = words.next().is_none() && attribute.accepts(value);
        fits.then(|| Self { policy, attribute, value: value.to_owned() })
    }
}
