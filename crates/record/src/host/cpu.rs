//! The CPUs: model, number, isolated ones, idle states and frequency scaling.

use crate::model::{Cpufreq, Cpuidle};
use crate::tree::{Tree, cpus_in};

/// Arm's own cores, by part number (MIDR; arch/arm64/include/asm/cputype.h and the cores' technical reference manuals).
const ARM_PARTS: [(u32, &str); 26] = [
    (0xb76, "ARM1176"),
    (0xc07, "Cortex-A7"),
    (0xc08, "Cortex-A8"),
    (0xc09, "Cortex-A9"),
    (0xc0f, "Cortex-A15"),
    (0xd03, "Cortex-A53"),
    (0xd04, "Cortex-A35"),
    (0xd05, "Cortex-A55"),
    (0xd07, "Cortex-A57"),
    (0xd08, "Cortex-A72"),
    (0xd09, "Cortex-A73"),
    (0xd0a, "Cortex-A75"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse-N1"),
    (0xd0d, "Cortex-A77"),
    (0xd40, "Neoverse-V1"),
    (0xd41, "Cortex-A78"),
    (0xd44, "Cortex-X1"),
    (0xd46, "Cortex-A510"),
    (0xd47, "Cortex-A710"),
    (0xd48, "Cortex-X2"),
    (0xd49, "Neoverse-N2"),
    (0xd4d, "Cortex-A715"),
    (0xd4e, "Cortex-X3"),
    (0xd4f, "Neoverse-V2"),
    (0xd80, "Cortex-A520"),
];

/// The CPU model; on Arm the core, with the board in parentheses.
pub(crate) fn model(tree: &Tree) -> Option<String> {
    let cpuinfo = tree.text("proc/cpuinfo");
    let core = cpuinfo.as_deref().and_then(core_model);
    let board =
        cpuinfo.as_deref().and_then(|text| value(text, "Model").or_else(|| value(text, "Hardware"))).map(Into::into);
    let board = board.or_else(|| tree.word("proc/device-tree/model"));
    match (core, board) {
        (Some(core), Some(board)) => Some(format!("{core} ({board})")),
        (core, board) => core.or(board),
    }
}

/// The core's model, in the fields of x86, Arm and RISC-V.
fn core_model(cpuinfo: &str) -> Option<String> {
    if let Some(part) = value(cpuinfo, "CPU part") {
        let implementer = value(cpuinfo, "CPU implementer").unwrap_or("unknown");
        let number = u32::from_str_radix(part.trim_start_matches("0x"), 16).ok();
        let known = ARM_PARTS.iter().find(|(part, _)| Some(*part) == number && implementer == "0x41");
        return Some(
            known.map_or_else(|| format!("Arm part {part} of implementer {implementer}"), |(_, name)| (*name).into()),
        );
    }
    ["model name", "uarch", "cpu model", "cpu"].into_iter().find_map(|key| value(cpuinfo, key)).map(Into::into)
}

/// The first value of a key.
pub(crate) fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).find(|value| !value.is_empty())
}

/// Number of CPUs in a sysfs list.
pub(crate) fn count(tree: &Tree, path: &str) -> Option<u32> {
    u32::try_from(cpus_in(&tree.word(path)?)?.len()).ok()
}

/// Number of CPUs online: from sysfs, else from the lines of `/proc/stat`.
pub(crate) fn online(tree: &Tree) -> Option<u32> {
    count(tree, "sys/devices/system/cpu/online").or_else(|| {
        let stat = tree.text("proc/stat")?;
        let lines = stat
            .lines()
            .filter(|line| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
        u32::try_from(lines.count()).ok().filter(|&cpus| cpus > 0)
    })
}

/// SMT active.
pub(crate) fn smt(tree: &Tree) -> Option<bool> {
    match tree.number("sys/devices/system/cpu/smt/active") {
        Some(0u8) => Some(false),
        Some(1) => Some(true),
        _ => None,
    }
}

/// A CPU list in its shortest form; empty if the kernel reports no CPU.
pub(crate) fn list(tree: &Tree, path: &str) -> Option<String> {
    cpus_in(&tree.text(path)?).map(|cpus| cpus.to_string())
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings() {
        let x86 = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu\n";
        assert_eq!(core_model(x86).as_deref(), Some("AMD EPYC"));
        let armv7 =
            "processor\t: 0\nmodel name\t: ARMv7 Processor rev 3 (v7l)\nCPU implementer\t: 0x41\nCPU part\t: 0xc07\n";
        assert_eq!(core_model(armv7).as_deref(), Some("Cortex-A7"));
        let apple = "CPU implementer\t: 0x61\nCPU part\t: 0x022\n";
        assert_eq!(core_model(apple).as_deref(), Some("Arm part 0x022 of implementer 0x61"));
        assert_eq!(core_model("uarch\t: sifive,u74-mc\n").as_deref(), Some("sifive,u74-mc"));
        assert_eq!(core_model(""), None);
    }

    #[test]
    fn parts_are_listed_once() {
        assert!(ARM_PARTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "(CPU part|model name|Model)?[ \t]*:?.{0,60}") {
            let _ = core_model(&text);
        }
    }
}
