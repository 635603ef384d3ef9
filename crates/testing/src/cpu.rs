//! The CPUs of tests.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The first CPU that this thread may use: a container may withhold CPU 0.
///
/// # Panics
/// If the kernel does not say.
#[must_use]
pub fn first_cpu() -> usize {
    let allowed = sched_getaffinity(None).expect("sched_getaffinity(2)");
    (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a thread has a CPU")
}
