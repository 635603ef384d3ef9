//! The kernel lab: boots a Debian kernel in QEMU, runs a command in it, and returns the output.
//!
//! It tests interfaces that the host lacks: cpufreq with all governors, `amd_pstate` with EPP, idle states, function tracing,
//! PREEMPT_RT. QEMU emulates the CPU in software (TCG), so the lab works in any container. It takes about two seconds from
//! start to exit.
//!
//! A [`Machine`] has a kernel, CPUs, firmware tables, files and a command. A [`Done`] has the command's exit status, stdout and
//! stderr. If a tool or a kernel is missing, the lab fails and names the package ([`missing`]).
//!
//! The lab shows that an interface works, never its speed: every instruction is emulated.
#![forbid(unsafe_code)]

mod acpi;
mod initramfs;
mod kernel;
mod machine;
mod tools;

pub use acpi::Table;
pub use kernel::Kernel;
pub use machine::{Done, Machine, Stops, User, quoted};
pub use tools::missing;

use std::path::PathBuf;

/// The cache of kernels: `vm` in cargo's target folder.
#[must_use]
pub fn cache() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("vm")
}

/// For tests: whether the lab can run here. If not, prints why on stderr.
///
/// # Panics
/// If something is missing and `PUNCTUAL_NO_SKIP` is `1`.
#[must_use]
pub fn ready(kernel: Kernel) -> bool {
    let mut lacks = missing();
    if !kernel.is_here() {
        lacks.push(format!("kernel {kernel} (cargo xtask vm --fetch {kernel})"));
    }
    if lacks.is_empty() {
        return true;
    }
    punctual_testing::skip(&format!("the kernel lab lacks {}", lacks.join(", ")));
    false
}
