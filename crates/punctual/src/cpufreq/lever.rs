//! The ways to raise a CPU's speed, from the cheapest.

use std::fmt;

use punctual_linux::uclamp;

use super::attribute::Attribute;
use super::error::Error;
use super::guard::GovernorGuard;
use super::policy::Policy;

/// A way to raise the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lever {
    /// A utilisation clamp of the calling thread: one system call, no privilege, and it ends with the thread. Needs
    /// CONFIG_UCLAMP_TASK and the governor schedutil.
    Clamp,
    /// The lower frequency limit, raised to the upper one: one write per policy. Works under every governor but `userspace`, and
    /// under `performance` there is nothing to raise.
    MinFrequency,
    /// The energy-performance preference: one write per policy, and the hardware takes it up at its leisure.
    Preference,
    /// The governor `performance`: stops one governor and starts another, the dearest.
    Governor,
}

impl Lever {
    /// All, from the cheapest.
    pub const ALL: [Self; 4] = [Self::Clamp, Self::MinFrequency, Self::Preference, Self::Governor];

    /// Whether it can work on this policy, for the calling thread; otherwise why not.
    pub(super) fn suits(self, policy: &Policy) -> Result<(), String> {
        let governor = policy.governor.as_deref().unwrap_or("unknown");
        match self {
            Self::Clamp if governor != "schedutil" => Err(format!("{governor} takes no notice of utilisation clamps")),
            Self::Clamp => {
                let before = uclamp::minimum(0).map_err(|error| error.to_string())?;
                uclamp::set_minimum(0, before).map_err(|error| error.to_string())
            }
            Self::MinFrequency if governor == "userspace" => Err("userspace keeps the speed that was set".into()),
            Self::MinFrequency if governor == "performance" => Err("performance keeps the highest already".into()),
            Self::MinFrequency if policy.max_khz.is_none() || policy.min_khz.is_none() => {
                Err("no frequency limits".into())
            }
            Self::MinFrequency if policy.min_khz == policy.max_khz => Err("both limits are the same already".into()),
            Self::Preference if policy.preference.is_none() => Err("no energy-performance preference".into()),
            Self::Preference if governor == "performance" => Err("performance has the preference already".into()),
            Self::Governor if !policy.governors.iter().any(|g| g == "performance") => {
                Err("no governor performance".into())
            }
            Self::Governor if governor == "performance" => Err("the governor is performance already".into()),
            _ => Ok(()),
        }
    }

    /// Raises the speed.
    pub(super) fn raise(self, guard: Option<&mut GovernorGuard>) -> Result<(), Error> {
        match (self, guard) {
            (Self::MinFrequency, Some(guard)) => guard.set_min_to_max(),
            (Self::Preference, Some(guard)) => guard.set_preference("performance"),
            (Self::Governor, Some(guard)) => guard.set_governor("performance"),
            _ => uclamp::set_minimum(0, uclamp::FULL).map_err(clamp_failed),
        }
    }

    /// Lets go: what was found comes back.
    pub(super) fn let_go(self, guard: Option<&GovernorGuard>, clamp_before: u32) -> Result<(), Error> {
        let attribute = match self {
            Self::Clamp => return uclamp::set_minimum(0, clamp_before).map_err(clamp_failed),
            Self::MinFrequency => Attribute::MinFrequency,
            Self::Preference => Attribute::Preference,
            Self::Governor => Attribute::Governor,
        };
        let left = guard.map(|guard| guard.put_back_now(attribute)).unwrap_or_default();
        match left.into_iter().next() {
            None => Ok(()),
            Some(left) => Err(Error::NotKept {
                policy: left.setting.policy,
                file: left.setting.attribute.file(),
                set: left.setting.value,
                found: left.why,
            }),
        }
    }
}

fn clamp_failed(error: punctual_linux::Error) -> Error {
    Error::io("clamping the utilisation of", "this thread", error.source)
}

impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Clamp => "utilisation clamp",
            Self::MinFrequency => "lower frequency limit",
            Self::Preference => "energy-performance preference",
            Self::Governor => "governor performance",
        })
    }
}
