//! Fuzzes journals of the frequency keeper, restored on a tree of files.

use std::fs;
use std::path::PathBuf;

use punctual::cpufreq::Cpufreq;
use punctual::restore::{LockWait, StateDir};

use super::mutate;
use super::random::Random;

const LINES: [&str; 12] = [
    "policy0 scaling_governor ondemand",
    "policy0 scaling_min_freq 1000000",
    "policy0 scaling_max_freq 3000000",
    "policy0 scaling_setspeed 1800000",
    "policy0 energy_performance_preference power",
    "policy1 scaling_governor performance",
    "policy0 scaling_governor ../../../outside",
    "policy../../.. scaling_governor x",
    "policy0 ../../../../outside x",
    "policy18446744073709551615 scaling_governor x",
    "policy0 scaling_min_freq 99999999999999999999",
    "",
];

/// A machine as a file tree, with a file beside it that must stay unchanged.
pub(super) struct Machine {
    folder: tempfile::TempDir,
    boot: String,
}

impl Machine {
    pub(super) fn new() -> std::io::Result<Self> {
        let machine = Self {
            folder: tempfile::Builder::new().prefix("punctual-fuzz-").tempdir()?,
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
        };
        fs::create_dir_all(machine.policy().join("stats"))?;
        for (name, value) in [
            ("scaling_driver", "acpi-cpufreq"),
            ("scaling_governor", "performance"),
            ("scaling_available_governors", "ondemand performance userspace"),
            ("scaling_min_freq", "1000000"),
            ("scaling_max_freq", "3000000"),
            ("cpuinfo_min_freq", "1000000"),
            ("cpuinfo_max_freq", "3000000"),
            ("scaling_setspeed", "<unsupported>"),
            ("affected_cpus", "0"),
            ("related_cpus", "0"),
        ] {
            fs::write(machine.policy().join(name), value)?;
        }
        fs::write(machine.outside(), "outside")?;
        Ok(machine)
    }

    fn policy(&self) -> PathBuf {
        self.folder.path().join("sys/devices/system/cpu/cpufreq/policy0")
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Restores journals and returns whether any was followed. Checks that only settings of policies change and no other file appears.
    pub(super) fn check(&self, random: &mut Random) -> Result<bool, String> {
        let state = self.folder.path().join("state");
        let cpufreq = Cpufreq::at(self.folder.path(), StateDir::at(&state));
        let failed = |error: std::io::Error| error.to_string();
        if !state.exists() {
            // Created by the library, with the mode that it requires.
            let _ = cpufreq.restore(LockWait::No);
        }
        // The third journal names threads, which belong to the real machine.
        for name in ["journal", "before-set"] {
            let _ = fs::remove_file(state.join(name));
            fs::write(state.join(name), self.journal(random)).map_err(failed)?;
        }
        let before = fs::read_dir(self.policy()).map_err(failed)?.count();
        let restored = cpufreq.restore(LockWait::No);
        let after = fs::read_dir(self.policy()).map_err(failed)?.count();
        let outside = fs::read_to_string(self.outside()).map_err(failed)?;
        if before != after || outside != "outside" {
            return Err(format!("{before} files became {after}; outside: {outside}"));
        }
        Ok(restored.is_ok_and(|restored| restored.told.iter().any(|told| !told.is_empty())))
    }

    fn journal(&self, random: &mut Random) -> Vec<u8> {
        let mut text = format!("punctual-cpufreq-1 {}\n", if random.one_in(9) { "another" } else { &self.boot });
        for _ in 0..random.below(6) {
            text.push_str(LINES[random.below(LINES.len())]);
            text.push('\n');
        }
        let mut bytes = text.into_bytes();
        if random.one_in(2) {
            mutate::bytes(&mut bytes, random);
        }
        bytes
    }
}
