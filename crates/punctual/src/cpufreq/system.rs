//! What a machine, or a fixture tree, shows: frequency policies (the CPUs that share a frequency, and their settings), idle states, and
//! energy counters (RAPL, through powercap).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_linux::sched;

use super::{Attribute, Error, FORM, IN_A_VIRTUAL_MACHINE};
use crate::cpu_set::CpuSet;
use crate::restore;
use crate::restore::StateDir;
use crate::restore::files::{number, read, words};

/// A root of the file system with `sys` and `proc` in it, and the folder of the journal.
#[derive(Debug, Clone)]
pub struct Cpufreq {
    root: PathBuf,
    state: StateDir,
}

impl Cpufreq {
    /// This machine.
    #[must_use]
    pub fn system() -> Self {
        Self::at("/", StateDir::system())
    }

    /// A machine whose files are below `root`.
    pub fn at(root: impl Into<PathBuf>, state: StateDir) -> Self {
        Self { root: root.into(), state }
    }

    /// The folder of its journal.
    #[must_use]
    pub const fn state(&self) -> &StateDir {
        &self.state
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn cpu_folder(&self) -> PathBuf {
        self.root.join("sys/devices/system/cpu")
    }

    /// The values of an attribute in the policies of these CPUs. Reads two files of each.
    pub(crate) fn shown(&self, attribute: Attribute, cpus: &CpuSet) -> Vec<String> {
        let value = |number: usize| {
            let affected = words(&FORM.item(&self.root, number).join("affected_cpus"));
            let concerned = affected.iter().filter_map(|cpu| cpu.parse().ok()).any(|cpu| cpus.contains(cpu));
            read(&self.file(number, attribute)).filter(|_| concerned)
        };
        FORM.numbers(&self.root).into_iter().filter_map(value).collect()
    }

    pub(crate) fn file(&self, policy: usize, attribute: Attribute) -> PathBuf {
        FORM.item(&self.root, policy).join(attribute.file())
    }

    /// All policies, by number.
    ///
    /// # Errors
    /// [`Error::NotExposed`] if there is none: a virtual machine, or no driver.
    pub fn policies(&self) -> Result<Vec<CpufreqPolicy>, Error> {
        let numbers = FORM.numbers(&self.root);
        if numbers.is_empty() {
            return Err(Error::NotExposed { at: self.root.join(FORM.folder), why: self.why_not_exposed() });
        }
        let cpu = self.cpu_folder();
        Ok(numbers.into_iter().map(|n| CpufreqPolicy::read(n, &FORM.item(&self.root, n), &cpu)).collect())
    }

    /// The policies of these CPUs, each once; all if none is named.
    pub fn policies_of(&self, cpus: &[usize]) -> Result<Vec<CpufreqPolicy>, Error> {
        let mut policies = self.policies()?;
        for &cpu in cpus {
            if !policies.iter().any(|policy| policy.cpus.contains(&cpu)) {
                return Err(Error::NoSuchCpu { cpu });
            }
        }
        policies.retain(|policy| match cpus {
            [] => !policy.cpus.is_empty(),
            _ => policy.cpus.iter().any(|cpu| cpus.contains(cpu)),
        });
        Ok(policies)
    }

    /// Whether this is a virtual machine, according to the CPU (its flag `hypervisor`) or the firmware.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        let flags = std::fs::read_to_string(self.root.join("proc/cpuinfo")).unwrap_or_default();
        let mut flags = flags.lines().filter(|line| line.starts_with("flags"));
        flags.next().is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
            || read(&self.root.join("sys/hypervisor/type")).is_some()
    }

    fn why_not_exposed(&self) -> String {
        if !self.cpu_folder().is_dir() {
            "/sys is not mounted here, or is hidden".into()
        } else if self.is_virtual() {
            IN_A_VIRTUAL_MACHINE.into()
        } else {
            "no cpufreq driver is loaded, or the firmware keeps the CPU's performance states to itself".into()
        }
    }
}

/// One idle state of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its number, from the shallowest.
    pub number: usize,
    /// Its name: `POLL`, `C1`, `C6`, ...
    pub name: String,
    /// Exit latency, in µs.
    pub exit_latency_us: Option<u64>,
    /// Target residency, in µs: the shortest stay that saves energy.
    pub residency_us: Option<u64>,
    /// Disabled by the user or the driver.
    pub disabled: Option<bool>,
}

impl Cpufreq {
    /// The idle states of a CPU, from the shallowest. Empty if the kernel shows none.
    #[must_use]
    pub fn idle_states(&self, cpu: usize) -> Vec<IdleState> {
        let folder = self.cpu_folder().join(format!("cpu{cpu}/cpuidle"));
        let state = |index: usize| {
            let at = folder.join(format!("state{index}"));
            Some(IdleState {
                number: index,
                name: read(&at.join("name"))?,
                exit_latency_us: number(&at.join("latency")),
                residency_us: number(&at.join("residency")),
                disabled: number(&at.join("disable")).map(|value| value != 0),
            })
        };
        (0..).map_while(state).collect()
    }
}

/// A zone with an energy counter: a package, its cores, its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyZone {
    /// Its name: `package-0`, `core`, `dram`, ...
    pub name: String,
    /// The counter wraps to 0 beyond this, in µJ.
    pub range_uj: Option<u64>,
    path: PathBuf,
}

impl EnergyZone {
    /// The counter, in µJ; `None` if it cannot be read. Since Linux 5.10 only root can read it, because it leaks
    /// secrets.
    #[must_use]
    pub fn read_uj(&self) -> Option<u64> {
        number(&self.path.join("energy_uj"))
    }
}

/// The counters of all packages at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Energy {
    zones: Vec<(EnergyZone, u64)>,
}

impl Cpufreq {
    /// The zones with an energy counter (Documentation/power/powercap/powercap.rst). Empty if RAPL is absent or hidden.
    #[must_use]
    pub fn energy_zones(&self) -> Vec<EnergyZone> {
        let folder = self.root().join("sys/class/powercap");
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        // Zones are named intel-rapl:0 and intel-rapl:0:1, even on AMD CPUs; intel-rapl alone is the driver.
        let mut paths: Vec<PathBuf> = entries
            .filter(|e| e.file_name().to_string_lossy().strip_prefix("intel-rapl:").is_some())
            .map(|e| e.path())
            .collect();
        paths.sort();
        let zone = |path: PathBuf| {
            let name = read(&path.join("name"))?;
            Some(EnergyZone { name, range_uj: number(&path.join("max_energy_range_uj")), path })
        };
        paths.into_iter().filter_map(zone).collect()
    }

    /// The current counters of the packages. A package's energy contains that of its parts, so they are omitted.
    #[must_use]
    pub fn energy(&self) -> Option<Energy> {
        let packages = self.energy_zones().into_iter().filter(|zone| zone.name.starts_with("package"));
        let zones: Vec<(EnergyZone, u64)> = packages.filter_map(|zone| zone.read_uj().map(|uj| (zone, uj))).collect();
        (!zones.is_empty()).then_some(Energy { zones })
    }
}

impl Energy {
    /// Energy used since, in µJ. Correct unless a counter wrapped twice, which takes minutes at full load.
    #[must_use]
    pub fn since_uj(&self) -> Option<u64> {
        let used = |(zone, before): &(EnergyZone, u64)| {
            let now = zone.read_uj()?;
            match now.checked_sub(*before) {
                Some(used) => Some(used),
                None => Some(now + zone.range_uj?.checked_sub(*before)?),
            }
        };
        self.zones.iter().map(used).sum()
    }
}

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
