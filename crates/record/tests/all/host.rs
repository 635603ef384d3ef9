//! Host facts on copies of real machines' files, on this machine, and on garbage.

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use punctual_record::{Cpufreq, Cpuidle, FairServer, Host, RtLimits};

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max processes             96365                96365                processes 
Max locked memory         8388608              8388608              bytes     
Max realtime priority     0                    0                    
";

/// A directory with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
    root
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

#[test]
fn a_virtual_machine() {
    let root = tree(&[
        ("proc/sys/kernel/osrelease", "6.18.44\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC @0\n"),
        ("proc/sys/kernel/arch", "x86_64\n"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor lahf_lm\n"),
        ("proc/self/limits", LIMITS),
        ("proc/self/status", "Name:\tcat\nCapEff:\t000001fffeffffff\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"),
        ("proc/self/timerslack_ns", "50000\n"),
        ("proc/self/cgroup", "1:cpu:/\n0::/\n"),
        ("proc/1/cgroup", "1:cpu:/\n0::/\n"),
        ("proc/meminfo", "MemTotal:       24719040 kB\nMemFree:          100000 kB\n"),
        ("proc/loadavg", "0.52 0.58 0.59 1/467 12345\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/present", "0-1\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/devices/system/cpu/cpuidle/current_driver", "haltpoll\n"),
        ("sys/devices/system/cpu/cpuidle/current_governor", "haltpoll\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "haltpoll idle\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "1\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock \n"),
    ]);
    let mut config = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    config.write_all(b"CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=1000\n").unwrap();
    fs::write(root.path().join("proc/config.gz"), config.finish().unwrap()).unwrap();
    let expected = Host {
        kernel: some("6.18.44"),
        kernel_version: some("#1 SMP PREEMPT_DYNAMIC @0"),
        architecture: some("x86_64"),
        preemption: some("dynamic"),
        hz: Some(1000),
        cpu_model: some("AMD EPYC"),
        cpus_online: Some(2),
        cpus_present: Some(2),
        cpus_allowed: some("0-1"),
        cpu_quota: None,
        smt: Some(false),
        clocksource: some("tsc"),
        cpuidle: Some(Cpuidle {
            driver: some("haltpoll"),
            governor: some("haltpoll"),
            deepest_state: some("haltpoll idle"),
            deepest_exit_latency_us: Some(1),
        }),
        cpufreq: None,
        hypervisor: some("kvm"),
        emulator: None,
        container: None,
        timer_slack_ns: Some(50_000),
        rt: RtLimits {
            period_us: Some(1_000_000),
            runtime_us: Some(950_000),
            fair_server: None,
            rtprio_limit: Some(0),
            cap_sys_nice: Some(true),
            memlock_bytes: Some(8_388_608),
            memlock_unlimited: Some(false),
            preempt_rt: Some(false),
        },
        isolated_cpus: some(""),
        nohz_full_cpus: None,
        memory_kb: Some(24_719_040),
        load1: Some(0.52),
        name: None,
    };
    assert_eq!(Host::read(root.path()), expected);
}

#[test]
fn a_laptop() {
    let root = tree(&[
        ("proc/sys/kernel/osrelease", "6.1.0-21-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.90-1 (2024-05-03)\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: 11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz\nflags\t\t: fpu constant_tsc\n",
        ),
        ("boot/config-6.1.0-21-amd64", "CONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
        ("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n"),
        ("proc/1/cgroup", "0::/init.scope\n"),
        (
            "proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\nMax realtime priority     95   95\n",
        ),
        ("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-127\n"),
        ("sys/kernel/debug/sched/preempt", "none (voluntary) full \n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/period", "1000000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu1/runtime", "100000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu1/period", "1000000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu2/runtime", "no number\n"),
        ("sys/kernel/debug/sched/fair_server/cpu2/period", "0\n"),
        ("sys/class/dmi/id/sys_vendor", "LENOVO\n"),
        ("sys/class/dmi/id/product_name", "20XW0026GE\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("sys/devices/system/cpu/present", "0-7\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/devices/system/cpu/nohz_full", "2,3\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
        ("sys/devices/system/cpu/cpuidle/current_governor_ro", "menu\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1_ACPI\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "1\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C2_ACPI\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "253\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state10/name", "C10\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state10/latency", "1048\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state10/disable", "1\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "intel_pstate\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "400000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "4700000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "balance_performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n"),
    ]);
    let host = Host::read(root.path());
    assert_eq!(host.preemption.as_deref(), Some("voluntary"));
    assert_eq!(host.hz, Some(250));
    assert_eq!((host.hypervisor, host.container, host.cpu_quota), (None, None, None));
    assert_eq!((host.isolated_cpus.as_deref(), host.nohz_full_cpus.as_deref()), (Some("2-3"), Some("2-3")));
    assert_eq!((host.smt, host.cpus_allowed.as_deref()), (Some(true), Some("0-7")));
    let rt = RtLimits {
        fair_server: Some(FairServer { runtime_ns: 100_000_000, period_ns: 1_000_000_000 }),
        rtprio_limit: Some(95),
        cap_sys_nice: Some(false),
        memlock_unlimited: Some(true),
        preempt_rt: Some(false),
        ..RtLimits::default()
    };
    assert_eq!(host.rt, rt);
    let idle = Cpuidle {
        driver: some("intel_idle"),
        governor: some("menu"),
        deepest_state: some("C2_ACPI"),
        deepest_exit_latency_us: Some(253),
    };
    assert_eq!(host.cpuidle, Some(idle));
    let scaling = Cpufreq {
        driver: some("intel_pstate"),
        governors: vec!["performance".into(), "powersave".into()],
        min_khz: Some(400_000),
        max_khz: Some(4_700_000),
        epp: some("balance_performance"),
    };
    assert_eq!(host.cpufreq, Some(scaling));
}

#[test]
fn a_raspberry_pi() {
    let root = tree(&[
        ("proc/sys/kernel/osrelease", "6.6.31-rt31-v8+\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Thu May 30 10:00:00 UTC 2024\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\nRevision\t: c03114\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
        ),
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
        ("sys/kernel/realtime", "1\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/devices/system/cpu/cpuidle/current_driver", "none\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "cpufreq-dt\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter\n"),
    ]);
    let host = Host::read(root.path());
    assert_eq!(host.cpu_model.as_deref(), Some("Cortex-A72 (Raspberry Pi 4 Model B Rev 1.4)"));
    assert_eq!((host.preemption.as_deref(), host.rt.preempt_rt), (Some("rt"), Some(true)));
    assert_eq!((host.cpus_online, host.cpus_present), (Some(4), None));
    assert_eq!((host.hypervisor, host.hz, host.architecture), (None, None, None));
    assert_eq!((host.isolated_cpus, host.nohz_full_cpus.as_deref()), (None, Some("")));
    assert_eq!(host.cpuidle, Some(Cpuidle { driver: some("none"), ..Cpuidle::default() }));
    assert_eq!(host.cpufreq.unwrap().governors, ["ondemand"]);
    assert_eq!(host.clocksource.as_deref(), Some("arch_sys_counter"));
}

#[test]
fn a_container_without_sys() {
    let root = tree(&[
        (".dockerenv", ""),
        ("proc/sys/kernel/osrelease", "5.10.0\n"),
        ("proc/sys/kernel/version", "#1 SMP Debian 5.10.1\n"),
        ("proc/cpuinfo", "model name\t: Xeon\nflags\t\t: fpu hypervisor\n"),
        ("proc/stat", "cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4\ncpu1 1 2 3 4\ncpu2 1 2 3 4\nintr 5\n"),
        ("proc/self/status", "CapEff:\t00000000a80425fb\nCpus_allowed_list:\t2,0\n"),
        ("proc/self/cgroup", "0::/../../\n"),
    ]);
    let host = Host::read(root.path());
    assert_eq!(host.container.as_deref(), Some("docker"));
    assert_eq!(host.hypervisor.as_deref(), Some("unidentified"));
    assert_eq!((host.cpus_online, host.cpus_allowed.as_deref()), (Some(3), Some("0,2")));
    assert_eq!(host.preemption, None, "neither none nor voluntary is known without the configuration");
    assert_eq!(host.rt.cap_sys_nice, Some(false));
    assert_eq!((host.cpuidle, host.cpufreq, host.smt, host.isolated_cpus), (None, None, None, None));
}

#[test]
fn nothing_is_known_of_an_empty_tree() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Host::read(root.path()), Host::default());
}

#[test]
fn this_machine() {
    let host = Host::read(Path::new("/"));
    let uname =
        |flag| String::from_utf8(std::process::Command::new("uname").arg(flag).output().unwrap().stdout).unwrap();
    assert_eq!(host.kernel.as_deref(), Some(uname("-r").trim()));
    assert_eq!(host.kernel_version.as_deref(), Some(uname("-v").trim()));
    assert_eq!(host.architecture.as_deref(), Some(uname("-m").trim()));
    let allowed: punctual::CpuSet = host.cpus_allowed.unwrap().parse().unwrap();
    assert!(std::thread::available_parallelism().unwrap().get() <= allowed.len());
    assert!(host.cpus_online.unwrap() as usize >= allowed.len(), "only CPUs online are allowed");
    assert!(host.memory_kb.unwrap() > 1000 && host.load1.is_some());
    assert!(host.rt.cap_sys_nice.is_some() && host.rt.rtprio_limit.is_some());
    assert_eq!(host.name, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn garbage_never_panics(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 24)) {
        let paths = [
            "proc/sys/kernel/osrelease", "proc/sys/kernel/version", "proc/config.gz", "sys/kernel/realtime",
            "sys/kernel/debug/sched/preempt", "proc/cpuinfo", "proc/device-tree/model", "sys/devices/system/cpu/online",
            "sys/devices/system/cpu/present", "sys/devices/system/cpu/isolated", "sys/devices/system/cpu/smt/active",
            "sys/devices/system/cpu/cpuidle/current_driver", "sys/devices/system/cpu/cpu0/cpuidle/state1/name",
            "sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "sys/class/dmi/id/sys_vendor", "proc/1/environ",
            "proc/self/cgroup", "proc/self/limits", "proc/self/status", "proc/loadavg", "proc/meminfo", "proc/self/timerslack_ns",
        ];
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in paths.iter().zip(texts) {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, bytes).unwrap();
        }
        let host = Host::read(root.path());
        prop_assert!(host.load1.is_none_or(f64::is_finite));
    }
}
