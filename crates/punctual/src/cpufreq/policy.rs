//! A frequency policy: the CPUs that share a frequency, and their settings.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use punctual_linux::sched;

use crate::cpufreq::Attribute;
use crate::cpufreq::Error;
use crate::restore;
use crate::restore::files::{number, read, words};

/// A transition latency that means "unknown" (`CPUFREQ_ETERNAL`).
const ETERNAL_NS: u64 = u32::MAX as u64;
/// The unit of `time_in_state` (Documentation/cpu-freq/cpufreq-stats.rst).
const TEN_MILLISECONDS: Duration = Duration::from_millis(10);

/// The kernel's facts about a policy. Unknown facts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpufreqPolicy {
    /// Number of its folder `policyN`.
    pub number: usize,
    /// Its online CPUs.
    pub cpus: Vec<usize>,
    /// Its online and offline CPUs.
    pub related_cpus: Vec<usize>,
    /// `scaling_driver`.
    pub driver: Option<String>,
    /// The governor in force.
    pub governor: Option<String>,
    /// The governors available now; modules that are not loaded may provide more.
    pub governors: Vec<String>,
    /// The frequency under `userspace`, in kHz; under that governor only.
    pub set_speed_khz: Option<u64>,
    /// The available frequencies, in kHz, if the driver has steps.
    pub frequencies_khz: Vec<u64>,
    /// Lower limit in force, in kHz.
    pub min_khz: Option<u64>,
    /// Upper limit in force, in kHz.
    pub max_khz: Option<u64>,
    /// The hardware's lowest frequency, in kHz.
    pub hardware_min_khz: Option<u64>,
    /// The hardware's highest frequency, in kHz.
    pub hardware_max_khz: Option<u64>,
    /// The frequency last requested or measured by the kernel (`scaling_cur_freq`), in kHz.
    pub current_khz: Option<u64>,
    /// The frequency reported by the hardware (`cpuinfo_cur_freq`), in kHz; root only, and not with every driver.
    pub hardware_khz: Option<u64>,
    /// The driver's transition latency, in ns.
    pub transition_latency_ns: Option<u64>,
    /// Whether frequencies above the nominal one are allowed.
    pub boost: Option<bool>,
    /// Energy-performance preference.
    pub preference: Option<String>,
    /// The preferences available by name.
    pub preferences: Vec<String>,
    /// Time spent at each frequency (kHz) since boot or the last reset, to 10 ms.
    pub time_in_state: Vec<(u64, Duration)>,
    /// Changes of frequency since boot or the last reset.
    pub transitions: Option<u64>,
}

impl CpufreqPolicy {
    /// Reads the policy in this folder. `cpu` is /sys/devices/system/cpu, where some drivers have one switch for all
    /// policies.
    pub(super) fn read(policy: usize, folder: &Path, cpu: &Path) -> Self {
        let list = |name: &str| words(&folder.join(name)).iter().filter_map(|cpu| cpu.parse().ok()).collect();
        let khz = |name: &str| number(&folder.join(name)).filter(|khz| *khz > 0);
        let text = |name: &str| read(&folder.join(name));
        Self {
            number: policy,
            cpus: list("affected_cpus"),
            related_cpus: list("related_cpus"),
            driver: text("scaling_driver"),
            governor: text(Attribute::Governor.file()),
            governors: words(&folder.join("scaling_available_governors")),
            set_speed_khz: khz(Attribute::SetSpeed.file()),
            frequencies_khz: frequencies(folder),
            min_khz: khz(Attribute::MinFrequency.file()),
            max_khz: khz(Attribute::MaxFrequency.file()),
            hardware_min_khz: khz("cpuinfo_min_freq"),
            hardware_max_khz: khz("cpuinfo_max_freq"),
            current_khz: khz("scaling_cur_freq"),
            hardware_khz: khz("cpuinfo_cur_freq"),
            transition_latency_ns: number(&folder.join("cpuinfo_transition_latency")).filter(|ns| *ns < ETERNAL_NS),
            boost: boost(folder, cpu),
            preference: text(Attribute::Preference.file()),
            preferences: words(&folder.join("energy_performance_available_preferences")),
            time_in_state: read(&folder.join("stats/time_in_state")).map(|text| times(&text)).unwrap_or_default(),
            transitions: number(&folder.join("stats/total_trans")),
        }
    }

    /// Time at each frequency (kHz) since an earlier reading, to 10 ms; unused frequencies are omitted.
    #[must_use]
    pub fn time_in_state_since(&self, earlier: &Self) -> Vec<(u64, Duration)> {
        let before = |khz: u64| {
            let mut states = earlier.time_in_state.iter();
            states.find(|(frequency, _)| *frequency == khz).map_or(Duration::ZERO, |(_, time)| *time)
        };
        let since = self.time_in_state.iter().map(|(khz, time)| (*khz, time.saturating_sub(before(*khz))));
        since.filter(|(_, time)| !time.is_zero()).collect()
    }

    /// Whether the hardware itself chooses the frequency within limits, so that `powersave` does not mean the lowest.
    #[must_use]
    pub fn is_autonomous(&self) -> bool {
        self.preference.is_some() || self.driver.as_deref() == Some("intel_pstate")
    }
}

fn frequencies(folder: &Path) -> Vec<u64> {
    let mut all: Vec<u64> =
        words(&folder.join("scaling_available_frequencies")).iter().filter_map(|word| word.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// The policy's own switch, the common one, or intel_pstate's, which is inverted.
fn boost(folder: &Path, cpu: &Path) -> Option<bool> {
    let on = number(&folder.join("boost")).or_else(|| number(&cpu.join("cpufreq/boost")));
    let off = || number(&cpu.join("intel_pstate/no_turbo"));
    on.map(|value| value != 0).or_else(|| off().map(|value| value == 0))
}

/// Lines of `kHz time`.
fn times(text: &str) -> Vec<(u64, Duration)> {
    let line = |line: &str| {
        let (khz, ticks) = line.split_once(' ')?;
        Some((khz.parse().ok()?, TEN_MILLISECONDS * ticks.trim().parse::<u32>().ok()?))
    };
    text.lines().filter_map(line).collect()
}

// The ways to raise a CPU's speed, from the cheapest.

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
                let before = sched::lower_clamp(0).map_err(|error| error.to_string())?;
                sched::set_lower_clamp(0, before).map_err(|error| error.to_string())
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
    sched::set_lower_clamp(0, minimum)
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
