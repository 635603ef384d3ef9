//! A frequency policy: the CPUs that share a frequency, and their settings.

use std::path::Path;
use std::time::Duration;

use super::attribute::Attribute;
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
