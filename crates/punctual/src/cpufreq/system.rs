//! What a machine, or a fixture tree, shows: frequency policies, idle states, and energy counters (RAPL, through powercap).

use std::path::{Path, PathBuf};

use super::policy::CpufreqPolicy;
use super::{Attribute, FORM};
use super::{Error, IN_A_VIRTUAL_MACHINE};
use crate::cpu_set::CpuSet;
use crate::restore::HIGHEST_ITEM;
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

    /// The folder of the policies.
    pub(super) fn policies_folder(&self) -> PathBuf {
        self.root.join(FORM.folder)
    }

    /// The values of an attribute in the policies of these CPUs. Reads two files of each.
    pub(crate) fn shown(&self, attribute: Attribute, cpus: &CpuSet) -> Vec<String> {
        let value = |number: usize| {
            let affected = words(&self.policies_folder().join(format!("policy{number}/affected_cpus")));
            let concerned = affected.iter().filter_map(|cpu| cpu.parse().ok()).any(|cpu| cpus.contains(cpu));
            read(&self.file(number, attribute)).filter(|_| concerned)
        };
        self.numbers().into_iter().filter_map(value).collect()
    }

    /// The numbers of all policies.
    fn numbers(&self) -> Vec<usize> {
        let entries = std::fs::read_dir(self.policies_folder()).into_iter().flatten().filter_map(Result::ok);
        let number_in = |name: &str| name.strip_prefix("policy")?.parse::<usize>().ok().filter(|n| *n <= HIGHEST_ITEM);
        let mut numbers: Vec<usize> = entries.filter_map(|e| number_in(&e.file_name().to_string_lossy())).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn file(&self, policy: usize, attribute: Attribute) -> PathBuf {
        self.policies_folder().join(format!("policy{policy}")).join(attribute.file())
    }

    /// All policies, by number.
    ///
    /// # Errors
    /// [`Error::NotExposed`] if there is none: a virtual machine, or no driver.
    pub fn policies(&self) -> Result<Vec<CpufreqPolicy>, Error> {
        let at = self.policies_folder();
        let numbers = self.numbers();
        if numbers.is_empty() {
            return Err(Error::NotExposed { at, why: self.why_not_exposed() });
        }
        let cpu = self.cpu_folder();
        Ok(numbers.into_iter().map(|n| CpufreqPolicy::read(n, &at.join(format!("policy{n}")), &cpu)).collect())
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
