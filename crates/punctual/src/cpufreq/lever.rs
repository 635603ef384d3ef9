//! The ways to raise a CPU's speed, from the cheapest.

use std::fmt;

use punctual_linux::uclamp;

use super::attribute::Attribute;
use super::error::Error;
use super::policy::CpufreqPolicy;
use crate::restore;

/// A way to raise the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lever {
    /// A utilisation clamp of the calling thread: one system call, without privilege, which ends with the thread. Needs
    /// CONFIG_UCLAMP_TASK and the governor schedutil.
    Clamp,
    /// The lower frequency limit, raised to the upper one. Each policy takes one write, which a kernel worker applies. A real-time thread
    /// that keeps this CPU busy delays the worker. Works under every governor except `userspace`; under `performance` there is nothing to
    /// raise.
    MinFrequency,
    /// The energy-performance preference: one write per policy. The hardware follows it with unspecified delay.
    Preference,
    /// The governor `performance`: stops one governor and starts another; the most expensive lever.
    Governor,
}

impl Lever {
    /// All levers, from the cheapest.
    pub const ALL: [Self; 4] = [Self::Clamp, Self::MinFrequency, Self::Preference, Self::Governor];

    /// Whether the lever can work on this policy, for the calling thread; otherwise the reason.
    pub(super) fn suits(self, policy: &CpufreqPolicy) -> Result<(), String> {
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
                Err(format!("policy{} shows no scaling_min_freq or no scaling_max_freq", policy.number))
            }
            Self::MinFrequency if policy.min_khz == policy.max_khz => {
                Err(format!("scaling_min_freq of policy{} is as high as scaling_max_freq already", policy.number))
            }
            Self::Preference if policy.preference.is_none() => Err("no energy-performance preference".into()),
            Self::Preference if governor == "performance" => Err("performance has the preference already".into()),
            Self::Governor if !policy.governors.iter().any(|g| g == "performance") => {
                Err("no governor performance".into())
            }
            Self::Governor if governor == "performance" => Err("the governor is performance already".into()),
            _ => Ok(()),
        }
    }

    /// The setting that raises the speed of this policy; `None` for a system call.
    pub(super) fn request(self, policy: &CpufreqPolicy) -> Option<(Attribute, String)> {
        match self {
            Self::Clamp => None,
            Self::MinFrequency => Some((Attribute::MinFrequency, policy.max_khz?.to_string())),
            Self::Preference => Some((Attribute::Preference, "performance".into())),
            Self::Governor => Some((Attribute::Governor, "performance".into())),
        }
    }
}

/// Clamps the calling thread.
pub(super) fn clamp(minimum: u32) -> Result<(), Error> {
    uclamp::set_minimum(0, minimum)
        .map_err(|error| restore::Error::io("clamping the utilisation of", "this thread", error.source).into())
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
