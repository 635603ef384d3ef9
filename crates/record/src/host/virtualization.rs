//! The hypervisor, if there is one.
//!
//! Its name comes from the first of: `/sys/hypervisor/type`, the device tree, the hypervisor's own clock sources, the
//! firmware's names (DMI). If only the CPU reports a hypervisor, the name is `unidentified`.

use crate::tree::Tree;

use super::cpu::value;

/// Firmware names of virtual machines, with their hypervisors (systemd's src/basic/virt.c has the same).
const FIRMWARE: [(&str, &str); 12] = [
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("Hyper-V", "hyper-v"),
];

/// Clock sources that a hypervisor offers to its guests.
const CLOCKSOURCES: [(&str, &str); 4] =
    [("kvm-clock", "kvm"), ("hyperv_clocksource", "hyper-v"), ("xen", "xen"), ("vmware-tsc", "vmware")];

/// The hypervisor's name.
pub(crate) fn hypervisor(tree: &Tree) -> Option<String> {
    let flagged = tree.text("proc/cpuinfo").is_some_and(|cpuinfo| has_flag(&cpuinfo));
    let named = tree
        .word("sys/hypervisor/type")
        .or_else(|| tree.text("proc/device-tree/hypervisor/compatible").and_then(|text| device_tree(&text)))
        .or_else(|| clocksource(tree))
        .or_else(|| firmware(tree));
    named.or_else(|| flagged.then(|| "unidentified".into()))
}

/// The CPU reports a hypervisor (CPUID leaf 1, ECX bit 31).
fn has_flag(cpuinfo: &str) -> bool {
    value(cpuinfo, "flags").is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// `linux,kvm`, `xen,xen-4.17`.
fn device_tree(compatible: &str) -> Option<String> {
    if compatible.contains("linux,kvm") {
        return Some("kvm".into());
    }
    compatible.contains("xen").then(|| "xen".into())
}

fn firmware(tree: &Tree) -> Option<String> {
    let fields = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
    let names: Vec<String> = fields.iter().filter_map(|field| tree.word(format!("sys/class/dmi/id/{field}"))).collect();
    let starts = |start: &str| names.iter().any(|name| name.starts_with(start));
    let known = FIRMWARE.iter().find(|(start, _)| starts(start)).map(|(_, name)| (*name).to_string());
    // Real machines have these two as well: Amazon's are called `m5.metal` and the like, Microsoft's `Surface ...`.
    let on_both = || match () {
        () if starts("Amazon EC2") && !names.iter().any(|name| name.contains("metal")) => Some("kvm".to_string()),
        () if starts("Microsoft Corporation") && starts("Virtual Machine") => Some("hyper-v".to_string()),
        () => None,
    };
    known.or_else(on_both)
}

fn clocksource(tree: &Tree) -> Option<String> {
    let available = tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    let offered = |start: &str| available.split_ascii_whitespace().any(|name| name.starts_with(start));
    CLOCKSOURCES.iter().find(|(start, _)| offered(start)).map(|(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flag_is_a_word_of_its_own() {
        assert!(has_flag("flags\t\t: fpu hypervisor lm\n"));
        assert!(!has_flag("flags\t\t: fpu nohypervisor lm\n"));
        assert!(!has_flag("model name\t: hypervisor\n"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,60}") {
            let _ = (has_flag(&text), device_tree(&text));
        }
    }
}
