//! The frequency settings of a machine, or of a fixture tree that looks like one.

use std::path::{Path, PathBuf};

use super::attribute::{Attribute, HIGHEST_POLICY};
use super::error::Error;
use super::files;
use super::guard::GovernorGuard;
use super::policy::Policy;
use super::state::{StateDir, Wait};

/// Why a virtual machine has no policy.
pub(super) const IN_A_VIRTUAL_MACHINE: &str =
    "in this virtual machine the hypervisor decides; nothing here can be changed";

/// A root of the file system with `sys` and `proc` in it, and the place where changes are journalled.
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

    /// Where it keeps its journal.
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

    /// The folder that holds the policies.
    pub(super) fn policies_folder(&self) -> PathBuf {
        self.cpu_folder().join("cpufreq")
    }

    pub(super) fn file(&self, policy: usize, attribute: Attribute) -> PathBuf {
        self.policies_folder().join(format!("policy{policy}")).join(attribute.file())
    }

    /// All policies, by number.
    ///
    /// # Errors
    /// [`Error::NotExposed`] where there is none: a virtual machine, or no driver.
    pub fn policies(&self) -> Result<Vec<Policy>, Error> {
        let at = self.policies_folder();
        let entries = std::fs::read_dir(&at).into_iter().flatten().filter_map(Result::ok);
        let number = |name: &str| name.strip_prefix("policy")?.parse::<usize>().ok().filter(|n| *n <= HIGHEST_POLICY);
        let mut numbers: Vec<usize> = entries.filter_map(|e| number(&e.file_name().to_string_lossy())).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            return Err(Error::NotExposed { at, why: self.why_not_exposed() });
        }
        let cpu = self.cpu_folder();
        Ok(numbers.into_iter().map(|n| Policy::read(n, &at.join(format!("policy{n}")), &cpu)).collect())
    }

    /// The policies of these CPUs, each once; all when none is named.
    pub fn policies_of(&self, cpus: &[usize]) -> Result<Vec<Policy>, Error> {
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

    /// A guard over the policies of these CPUs (all when none is named). Nothing is changed yet.
    ///
    /// What an earlier program left behind is put back first.
    pub fn guard(&self, cpus: &[usize], wait: Wait) -> Result<GovernorGuard, Error> {
        GovernorGuard::new(self.clone(), cpus, wait)
    }

    /// Whether this is a virtual machine: the CPU says so (`hypervisor` among its flags), or the firmware.
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
