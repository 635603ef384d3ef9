//! Energy counters of the CPU (RAPL, through powercap).

use std::path::PathBuf;

use super::system::Cpufreq;
use crate::restore::files::{number, read};

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
