//! Putting settings back, whatever order they depend on each other in.

use std::fmt;

use super::attribute::Setting;
use super::files;
use super::system::Cpufreq;

/// Times the settings are gone through. Each depends on at most two others: the preference on the governor, a lower limit on the
/// upper one; the last time finds everything in place.
const PASSES: u32 = 4;

/// A setting that could not be put back as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRestored {
    /// Which, and what it was.
    pub setting: Setting,
    /// What the kernel said, or what is there now.
    pub why: String,
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { policy, attribute, value } = &self.setting;
        write!(f, "policy{policy}: {attribute} was {value} and could not be put back: {}", self.why)
    }
}

impl NotRestored {
    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let Setting { policy, attribute, value } = &self.setting;
        format!(
            "when the CPU is online again, run `punctual governor restore`, or write {value} to \
             /sys/devices/system/cpu/cpufreq/policy{policy}/{attribute}"
        )
    }
}

/// Writes what differs from the settings until nothing does. What still differs at the end is told.
pub(super) fn put_back(cpufreq: &Cpufreq, settings: &[Setting]) -> Vec<NotRestored> {
    let mut left = Vec::new();
    for _ in 0..PASSES {
        let mut wrote = false;
        left.clear();
        for setting in settings {
            let path = cpufreq.file(setting.policy, setting.attribute);
            if files::read(&path).as_deref() == Some(&setting.value) {
                continue;
            }
            let written = files::write(&path, &setting.value);
            wrote |= written.is_ok();
            let now = match written {
                Ok(()) => files::read_back(setting.attribute, &path, &setting.value),
                Err(_) => files::must_read(&path),
            };
            let why = match (written, now) {
                (Err(error), _) | (Ok(()), Err(error)) => error.to_string(),
                (Ok(()), Ok(now)) if now == setting.value => continue,
                (Ok(()), Ok(now)) => format!("it reads {now}"),
            };
            left.push(NotRestored { setting: setting.clone(), why });
        }
        if !wrote {
            break;
        }
    }
    left
}
