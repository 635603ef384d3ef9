//! Power management: idle states and frequency scaling.

use crate::model::{Cpufreq, Cpuidle};
use crate::tree::Tree;

/// Idle states; `None` if the kernel has no cpuidle.
pub(crate) fn cpuidle(tree: &Tree) -> Option<Cpuidle> {
    let base = "sys/devices/system/cpu/cpuidle";
    let driver = tree.word(format!("{base}/current_driver"));
    // Its name before Linux 5.9, unless booted with cpuidle_sysfs_switch.
    let governor =
        tree.word(format!("{base}/current_governor")).or_else(|| tree.word(format!("{base}/current_governor_ro")));
    let states = tree.numbered("sys/devices/system/cpu/cpu0/cpuidle", "state");
    let enabled = |path: &std::path::Path| tree.number::<u64>(path.join("disable")).unwrap_or(0) == 0;
    let deepest = states.iter().rev().map(|(_, path)| path).find(|path| enabled(path));
    let found = Cpuidle {
        driver,
        governor,
        deepest_state: deepest.and_then(|path| tree.word(path.join("name"))),
        deepest_exit_latency_us: deepest.and_then(|path| tree.number(path.join("latency"))),
    };
    (found != Cpuidle::default()).then_some(found)
}

/// Frequency scaling; `None` if the kernel does not scale frequencies.
pub(crate) fn cpufreq(tree: &Tree) -> Option<Cpufreq> {
    let policies = tree.numbered("sys/devices/system/cpu/cpufreq", "policy");
    let (_, first) = policies.first()?;
    let mut governors: Vec<String> =
        policies.iter().filter_map(|(_, path)| tree.word(path.join("scaling_governor"))).collect();
    governors.sort();
    governors.dedup();
    Some(Cpufreq {
        driver: tree.word(first.join("scaling_driver")),
        governors,
        min_khz: tree.number(first.join("scaling_min_freq")),
        max_khz: tree.number(first.join("scaling_max_freq")),
        epp: tree.word(first.join("energy_performance_preference")),
    })
}
