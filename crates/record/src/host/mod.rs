//! Facts about the machine, read from `/proc` and `/sys`.
//!
//! Takes a root directory (`/`, or a fixture) and returns a [`Host`]. Facts that the machine does not report are
//! absent. Nothing is guessed or changed, and nothing fails.

mod container;
mod cpu;
mod emulator;
mod kernel;

use std::path::Path;

use crate::model::Host;
use crate::tree::Tree;

impl Host {
    /// Reads the facts under `root`. The machine's name is not read ([`Host::name`]).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let tree = Tree::new(root);
        let release = tree.word("proc/sys/kernel/osrelease");
        let version = tree.word("proc/sys/kernel/version");
        let config = kernel::Config::read(&tree, release.as_deref());
        let realtime = tree.number::<u8>("sys/kernel/realtime");
        Self {
            preemption: kernel::preemption(&tree, release.as_deref(), version.as_deref(), &config),
            hz: config.hz(),
            architecture: kernel::architecture(&tree),
            cpu_model: cpu::model(&tree),
            cpus_online: cpu::online(&tree),
            cpus_present: cpu::count(&tree, "sys/devices/system/cpu/present"),
            cpus_allowed: kernel::cpus_allowed(&tree),
            cpu_quota: container::cpu_quota(&tree),
            smt: cpu::smt(&tree),
            clocksource: tree.word("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            cpuidle: cpu::cpuidle(&tree),
            cpufreq: cpu::cpufreq(&tree),
            hypervisor: container::hypervisor(&tree),
            emulator: emulator::name(&tree),
            container: container::runtime(&tree),
            timer_slack_ns: tree.number("proc/self/timerslack_ns"),
            rt: kernel::real_time(&tree, kernel::is_preempt_rt(realtime, version.as_deref())),
            isolated_cpus: cpu::list(&tree, "sys/devices/system/cpu/isolated"),
            nohz_full_cpus: cpu::list(&tree, "sys/devices/system/cpu/nohz_full"),
            memory_kb: kernel::memory_kb(&tree),
            load1: tree.text("proc/loadavg").and_then(|text| kernel::load1(&text)),
            kernel: release,
            kernel_version: version,
            name: None,
        }
    }
}
