//! The kernel lab: boots one of Debian's kernels in QEMU, runs a command inside, and gives back what it said.
//!
//! For interfaces that the machine at hand does not have: cpufreq with all its governors, `amd_pstate` with EPP, idle states,
//! function tracing, PREEMPT_RT. QEMU emulates the CPU in software (TCG), so this works in any container and on any laptop, in
//! about two seconds from start to exit.
//!
//! In goes a [`Machine`]: which kernel, how many CPUs, which firmware tables, which files, which command. Out comes a [`Done`]: exit status, stdout and stderr
//! of the command. It refuses, with what to install, when a tool or a kernel is missing ([`missing`]).
//!
//! The lab shows that an interface works, never how fast something is: every instruction is emulated.
#![forbid(unsafe_code)]

mod acpi;
mod initramfs;
mod kernel;
mod machine;
mod tools;

pub use acpi::Table;
pub use kernel::Kernel;
pub use machine::{Done, Machine, User, quoted};
pub use tools::missing;

use std::path::PathBuf;

/// Where kernels are kept between runs: `vm` in cargo's target folder.
#[must_use]
pub fn cache() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("vm")
}

/// For tests: whether the lab can run here. If not, says so on stderr, where `PUNCTUAL_NO_SKIP=1` makes it a panic.
///
/// # Panics
/// When something is missing and `PUNCTUAL_NO_SKIP` is `1`.
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
