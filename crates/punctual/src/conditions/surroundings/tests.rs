use std::path::PathBuf;

use super::*;

/// A tree of files below a folder of its own.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

const STATUS: &str =
    "Name:\tx\nVmSize:\t   20000 kB\nVmLck:\t       8 kB\nCapEff:\t0000000000804000\nCapBnd:\t000001ffffffffff\n";

#[test]
fn nothing_to_read_is_nothing_known() {
    let (_keep, root) = tree(&[]);
    let here = Surroundings::below(&root);
    assert!(!here.has(CAP_SYS_NICE) && !here.has(CAP_IPC_LOCK) && !here.user_namespace);
    assert_eq!((here.locked_kib, here.mapped_kib, here.rt_runtime_us), (None, None, None));
    assert_eq!((here.rt_group, here.unified_group, here.cpuset, here.container), (None, None, None, None));
    assert_eq!((here.present_cpus, here.online_cpus), (None, None));
}

#[test]
fn a_machine_with_separate_hierarchies() {
    let (_keep, root) = tree(&[
        ("proc/thread-self/status", STATUS),
        ("proc/thread-self/cgroup", "4:cpu,cpuacct:/user.slice\n3:cpuset:/jobs\n0::/user.slice/session-1.scope\n"),
        ("proc/self/uid_map", "         0          0 4294967295\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us", "0\n"),
        ("sys/fs/cgroup/cpuset/jobs/cpuset.effective_cpus", "0-1\n"),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-2\n"),
    ]);
    let here = Surroundings::below(&root);
    assert!(here.has(CAP_SYS_NICE) && here.has(CAP_IPC_LOCK));
    assert_eq!((here.locked_kib, here.mapped_kib), (Some(8), Some(20_000)));
    assert_eq!((here.rt_runtime_us, here.rt_period_us), (Some(-1), Some(1_000_000)));
    assert_eq!(here.rt_group, Some(("/sys/fs/cgroup/cpu,cpuacct/user.slice/cpu.rt_runtime_us".into(), 0)));
    assert_eq!(here.cpuset, Some(("/sys/fs/cgroup/cpuset/jobs/cpuset.effective_cpus".into(), CpuSet::from_iter(0..2))));
    assert_eq!(here.unified_group.as_deref(), Some("/user.slice/session-1.scope"));
    assert_eq!((here.present_cpus, here.online_cpus), (Some(CpuSet::from_iter(0..4)), Some(CpuSet::from_iter(0..3))));
}

#[test]
fn a_container_of_a_plain_user() {
    let (_keep, root) = tree(&[
        ("proc/self/status", STATUS),
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/uid_map", "         0       1000          1\n         1     100000      65536\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
        ("run/.containerenv", ""),
    ]);
    let here = Surroundings::below(&root);
    assert!(here.user_namespace && !here.has(CAP_SYS_NICE));
    assert_eq!(here.container.as_deref(), Some("podman"));
    assert_eq!(here.withheld(CAP_SYS_NICE), Withheld::ByUserNamespace);
    let without_namespace = Surroundings { user_namespace: false, ..here.clone() };
    assert_eq!(without_namespace.withheld(CAP_SYS_NICE), Withheld::ByContainer("podman".into()));
    assert_eq!(here.unified_group, None);
    assert_eq!(here.cpuset, Some(("/sys/fs/cgroup/cpuset.cpus.effective".into(), CpuSet::from_iter(0..4))));
}

#[test]
fn each_kind_of_container_by_its_mark() {
    for (file, text, kind) in [
        ("run/systemd/container", "lxc\n", "lxc"),
        (".dockerenv", "", "docker"),
        ("var/run/secrets/kubernetes.io/x", "", "kubernetes"),
    ] {
        let (_keep, root) = tree(&[(file, text)]);
        assert_eq!(Surroundings::below(&root).container.as_deref(), Some(kind));
    }
}

#[test]
fn nice_values_within_the_limit() {
    let with = |nice_limit| Surroundings { nice_limit, ..Surroundings::default() };
    // RLIMIT_NICE of 20 reaches nice 0, of 40 reaches −20 (getrlimit(2)).
    assert!(with(Some(20)).may_have_nice(0) && !with(Some(20)).may_have_nice(-1));
    assert!(with(Some(40)).may_have_nice(-20) && with(None).may_have_nice(-20));
    assert!(!with(Some(0)).may_have_nice(19) && with(Some(1)).may_have_nice(19));
}
