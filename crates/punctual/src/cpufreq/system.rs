//! The frequency settings of a machine, or of a fixture tree.

use std::path::{Path, PathBuf};

use super::attribute::{Attribute, FORM};
use super::error::{Error, IN_A_VIRTUAL_MACHINE};
use super::policy::CpufreqPolicy;
use crate::cpu_set::CpuSet;
use crate::restore::StateDir;
use crate::restore::files;
use crate::restore::form::HIGHEST_ITEM;

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
            let affected = files::words(&self.policies_folder().join(format!("policy{number}/affected_cpus")));
            let concerned = affected.iter().filter_map(|cpu| cpu.parse().ok()).any(|cpu| cpus.contains(cpu));
            files::read(&self.file(number, attribute)).filter(|_| concerned)
        };
        self.numbers().into_iter().filter_map(value).collect()
    }

    /// The numbers of all policies.
    fn numbers(&self) -> Vec<usize> {
        let entries = std::fs::read_dir(self.policies_folder()).into_iter().flatten().filter_map(Result::ok);
        let number = |name: &str| name.strip_prefix("policy")?.parse::<usize>().ok().filter(|n| *n <= HIGHEST_ITEM);
        let mut numbers: Vec<usize> = entries.filter_map(|e| number(&e.file_name().to_string_lossy())).collect();
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
            || files::read(&self.root.join("sys/hypervisor/type")).is_some()
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
