//! What this program runs in: the container of its process with the CPU time that its control groups allow, the hypervisor, and the emulator.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::host::cpu::value;
use crate::tree::Tree;

/// Words in the control groups of process 1 that identify the runtime.
const CGROUP_SIGNS: [(&str, &str); 7] = [
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("crio", "cri-o"),
    ("lxc", "lxc"),
    ("garden", "garden"),
];

/// The runtime, if there is a sign of one.
pub(crate) fn runtime(tree: &Tree) -> Option<String> {
    let own_variable = || tree.is_machine().then(|| std::env::var("container").ok()).flatten();
    let first_process = || tree.bytes("proc/1/environ").and_then(|bytes| variable(&bytes));
    let cgroup = || tree.text("proc/1/cgroup").and_then(|text| sign(&text).map(Into::into));
    tree.word("run/systemd/container")
        .or_else(|| tree.exists("run/.containerenv").then(|| "podman".into()))
        .or_else(|| tree.exists(".dockerenv").then(|| "docker".into()))
        .or_else(first_process)
        .or_else(own_variable)
        .or_else(cgroup)
        .filter(|name| !name.is_empty())
}

/// `container=` in a process' environment (systemd's container interface; lxc, podman and nspawn set it).
fn variable(environ: &[u8]) -> Option<String> {
    let found = environ.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(b"container="))?;
    Some(String::from_utf8_lossy(found).into_owned()).filter(|name| !name.is_empty())
}

fn sign(cgroup: &str) -> Option<&'static str> {
    let paths: Vec<&str> = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let found = CGROUP_SIGNS.iter().find(|(word, _)| paths.iter().any(|path| path.contains(word)));
    found.map(|(_, name)| *name)
}

/// The smallest CPU limit among this process' control groups and their parents, in CPUs; `None` without a readable
/// limit.
pub(crate) fn cpu_quota(tree: &Tree) -> Option<f64> {
    let groups = tree.text("proc/self/cgroup")?;
    let limit = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if controllers.is_empty() {
            let mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
            return mounts.iter().find_map(|mount| limit_along(path, mount, |group| limit_v2(tree, group)));
        }
        controllers.split(',').find(|controller| *controller == "cpu")?;
        let mounts = [&format!("sys/fs/cgroup/{controllers}"), "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];
        mounts.iter().find_map(|mount| limit_along(path, mount, |group| limit_v1(tree, group)))
    };
    groups.lines().filter_map(limit).reduce(f64::min)
}

/// The smallest limit from a group up to the mount. If the path is relative to another namespace, its groups do not
/// exist here. Then only the mount itself shows a limit.
fn limit_along(path: &str, mount: &str, limit: impl Fn(&Path) -> Option<f64>) -> Option<f64> {
    let mut group = PathBuf::from(mount);
    let mut groups = vec![group.clone()];
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => group.push(name),
            // `/../..`: the group lies outside of this namespace.
            Component::ParentDir => break,
            _ => continue,
        }
        groups.push(group.clone());
    }
    groups.iter().filter_map(|group| limit(group)).reduce(f64::min)
}

/// `cpu.max`: quota and period in microseconds, or `max`.
fn limit_v2(tree: &Tree, group: &Path) -> Option<f64> {
    let text = tree.text(group.join("cpu.max"))?;
    let (quota, period) = text.split_once(char::is_whitespace)?;
    ratio(quota.parse().ok()?, period.trim().parse().ok()?)
}

/// `cpu.cfs_quota_us` (-1: no limit) and `cpu.cfs_period_us`.
fn limit_v1(tree: &Tree, group: &Path) -> Option<f64> {
    ratio(tree.number(group.join("cpu.cfs_quota_us"))?, tree.number(group.join("cpu.cfs_period_us"))?)
}

fn ratio(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

// The hypervisor, if there is one.
//
// Its name comes from the first of: `/sys/hypervisor/type`, the device tree, the hypervisor's own clock sources, the
// firmware's names (DMI). If only the CPU reports a hypervisor, the name is `unidentified`.

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

// The emulator that runs this program on a CPU of another architecture, such as QEMU's user mode.
//
// Takes the file that the kernel executes. Returns the emulator's name, or nothing where the kernel runs this program itself. QEMU
// answers for `/proc/self/exe` with the emulated program, and for `/proc/self/...` alone (linux-user/syscall.c, `is_proc_myself`): the
// kernel answers for `/proc/thread-self/exe`. Its header names the machine that its code is for (elf(5), e_machine).

/// The file that the kernel executes.
const EXECUTED: &str = "proc/thread-self/exe";
/// Bytes of an ELF header up to the machine.
const HEADER: usize = 20;

/// The machine of this program's own code.
const OWN: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "arm") {
    Some(40)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else {
    None
};

/// The file name of the emulator; `None`: there is none, or it cannot be told.
pub(crate) fn emulator(tree: &Tree) -> Option<String> {
    of_program(tree, OWN?)
}

/// The same for a program whose code is for this machine.
fn of_program(tree: &Tree, own: u16) -> Option<String> {
    let mut header = [0; HEADER];
    File::open(tree.place(EXECUTED)).ok()?.read_exact(&mut header).ok()?;
    if machine(&header)? == own {
        return None;
    }
    // Another name space may hide the file's name; that there is an emulator is known all the same.
    let path = std::fs::read_link(tree.place(EXECUTED)).ok();
    let name = path.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    Some(name.unwrap_or_else(|| "an emulator".to_owned()))
}

/// The machine of a header in its own byte order.
fn machine(header: &[u8; HEADER]) -> Option<u16> {
    let bytes = [header[18], header[19]];
    match (&header[..4], header[5]) {
        (b"\x7fELF", 1) => Some(u16::from_le_bytes(bytes)),
        (b"\x7fELF", 2) => Some(u16::from_be_bytes(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        root
    }

    fn quota(files: &[(&str, &str)]) -> Option<f64> {
        cpu_quota(&Tree::new(tree(files).path()))
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ];
        assert_eq!(quota(&files), Some(1.5));
    }

    #[test]
    fn version_1() {
        let mut files = vec![
            ("proc/self/cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota(&files), Some(0.5));
        files[1].1 = "-1\n";
        assert_eq!(quota(&files), None);
    }

    #[test]
    fn a_path_from_outside_leaves_the_mount() {
        let files = [("proc/self/cgroup", "0::/../../host\n"), ("sys/fs/cgroup/cpu.max", "200000 100000")];
        assert_eq!(quota(&files), Some(2.0));
    }

    #[test]
    fn signs() {
        assert_eq!(sign("0::/system.slice/docker-abc.scope\n"), Some("docker"));
        assert_eq!(sign("12:cpu:/kubepods/besteffort/docker-abc\n"), Some("kubernetes"));
        assert_eq!(sign("0::/init.scope\n"), None);
        assert_eq!(variable(b"HOME=/\0container=lxc\0X=1"), Some("lxc".into()));
        assert_eq!(variable(b"xcontainer=lxc\0container="), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,60}", max in "[0-9max -]{0,30}") {
            let _ = (sign(&text), variable(text.as_bytes()));
            let limit = quota(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", &max)]);
            prop_assert!(limit.is_none_or(|limit| limit > 0.0 && limit.is_finite()));
            let _ = quota(&[("proc/self/cgroup", &text)]);
        }
    }

    #[test]
    fn flag_is_a_word_of_its_own() {
        assert!(has_flag("flags\t\t: fpu hypervisor lm\n"));
        assert!(!has_flag("flags\t\t: fpu nohypervisor lm\n"));
        assert!(!has_flag("model name\t: hypervisor\n"));
    }

    proptest! {
        #[test]
        fn no_garbage_of_a_hypervisor_panics(text in ".{0,60}") {
            let _ = (has_flag(&text), device_tree(&text));
        }
    }

    /// A machine whose kernel executes a file with these bytes.
    fn executing(bytes: &[u8]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/thread-self")).unwrap();
        std::fs::write(root.path().join("qemu-aarch64-static"), bytes).unwrap();
        symlink("../../qemu-aarch64-static", root.path().join(EXECUTED)).unwrap();
        let tree = Tree::new(root.path());
        (root, tree)
    }

    fn header(order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(b"\x7fELF");
        (bytes[5], bytes[18], bytes[19]) = (order, machine[0], machine[1]);
        bytes
    }

    #[test]
    fn code_for_another_machine_is_run_by_an_emulator() {
        let (_root, tree) = executing(&header(1, [62, 0]));
        assert_eq!(of_program(&tree, 183).as_deref(), Some("qemu-aarch64-static"));
        assert_eq!(of_program(&tree, 62), None, "the kernel runs it");
        let (_root, tree) = executing(&header(2, [0, 22]));
        assert_eq!(of_program(&tree, 22), None, "in the other byte order");
        assert_eq!(of_program(&tree, 62).as_deref(), Some("qemu-aarch64-static"));
    }

    #[test]
    fn what_cannot_be_told_is_no_emulator() {
        for bytes in [&b"#!/bin/sh\n# a script of some length"[..], b"\x7fELF", &header(7, [62, 0])] {
            let (_root, tree) = executing(bytes);
            assert_eq!(of_program(&tree, 183), None, "{bytes:?}");
        }
        assert_eq!(emulator(&Tree::new(std::path::Path::new("/nowhere"))), None);
    }

    #[test]
    fn the_kernel_of_this_machine_runs_this_program() {
        assert_eq!(emulator(&Tree::new(std::path::Path::new("/"))), None);
    }
}
