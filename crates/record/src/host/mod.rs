//! Facts about the machine, read from `/proc` and `/sys`.
//!
//! Takes a root directory (`/`, or a fixture) and returns a [`Host`]. Facts that the machine does not report are
//! absent. Nothing is guessed or changed, and nothing fails.
//!
//! In this file the kernel: its preemption model, tick rate and machine name, from its version string, its configuration if it is readable,
//! and debugfs if access is allowed; and the limits of this process.

mod container;
mod cpu;

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use punctual::CpuSet;

use crate::model::{FairServer, Host, RtLimits};
use crate::tree::{Tree, cpus_in};

impl Host {
    /// Reads the facts under `root`. The machine's name is not read ([`Host::name`]).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let tree = Tree::new(root);
        let release = tree.word("proc/sys/kernel/osrelease");
        let version = tree.word("proc/sys/kernel/version");
        let config = Config::read(&tree, release.as_deref());
        let realtime = tree.number::<u8>("sys/kernel/realtime");
        Self {
            preemption: preemption(&tree, release.as_deref(), version.as_deref(), &config),
            hz: config.hz(),
            architecture: architecture(&tree),
            cpu_model: cpu::model(&tree),
            cpus_online: cpu::online(&tree),
            cpus_present: cpu::count(&tree, "sys/devices/system/cpu/present"),
            cpus_allowed: cpus_allowed(&tree),
            cpu_quota: container::cpu_quota(&tree),
            smt: cpu::smt(&tree),
            clocksource: tree.word("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            cpuidle: cpu::cpuidle(&tree),
            cpufreq: cpu::cpufreq(&tree),
            hypervisor: container::hypervisor(&tree),
            emulator: container::emulator(&tree),
            container: container::runtime(&tree),
            timer_slack_ns: tree.number("proc/self/timerslack_ns"),
            rt: real_time(&tree, is_preempt_rt(realtime, version.as_deref())),
            isolated_cpus: cpu::list(&tree, "sys/devices/system/cpu/isolated"),
            nohz_full_cpus: cpu::list(&tree, "sys/devices/system/cpu/nohz_full"),
            memory_kb: memory_kb(&tree),
            load1: tree.text("proc/loadavg").and_then(|text| load1(&text)),
            kernel: release,
            kernel_version: version,
            name: None,
        }
    }

    /// Whether the kernel has fair servers: since Linux 6.12. `None`: its version is not known.
    #[must_use]
    pub fn has_fair_servers(&self) -> Option<bool> {
        let by_version = || Some(numbers(self.kernel.as_deref()?)? >= (6, 12));
        self.rt.fair_server.map(|_| true).or_else(by_version)
    }
}

/// Largest unpacked configuration; real ones have some 300 kB.
const MOST_CONFIG_BYTES: u64 = 8 << 20;

/// The kernel's build configuration; empty if it cannot be read.
#[derive(Debug, Default)]
struct Config(Option<String>);

impl Config {
    /// From `/proc/config.gz`, or the copies that distributions install.
    fn read(tree: &Tree, release: Option<&str>) -> Self {
        let packed = tree.bytes("proc/config.gz").and_then(|bytes| unpack(&bytes));
        let installed = || {
            // A release is one path component; anything else would lead out of the folder.
            let release = release.filter(|release| !release.contains('/') && !release.starts_with('.'))?;
            let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
            places.iter().find_map(|place| tree.word(place))
        };
        Self(packed.or_else(installed))
    }

    /// The value of an option, `y` or a number; `None` if it is unset or unknown.
    fn get(&self, option: &str) -> Option<&str> {
        let lines = self.0.as_deref()?.lines();
        lines.filter_map(|line| line.trim().split_once('=')).find(|(name, _)| *name == option).map(|(_, value)| value)
    }

    fn has(&self, option: &str) -> bool {
        self.get(option) == Some("y")
    }

    /// `CONFIG_HZ`.
    fn hz(&self) -> Option<u32> {
        self.get("CONFIG_HZ")?.parse().ok().filter(|hz| (1..=100_000).contains(hz))
    }

    /// The built-in model, as far as the configuration alone determines it.
    fn preemption(&self) -> Option<&'static str> {
        let built = [
            ("CONFIG_PREEMPT_RT", "rt"),
            ("CONFIG_PREEMPT_DYNAMIC", "dynamic"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_NONE", "none"),
        ];
        built.into_iter().find(|(option, _)| self.has(option)).map(|(_, model)| model)
    }
}

fn unpack(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).take(MOST_CONFIG_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The preemption model in force: from the scheduler (debugfs), else from the version string and the configuration.
fn preemption(tree: &Tree, release: Option<&str>, version: Option<&str>, config: &Config) -> Option<String> {
    if is_preempt_rt(tree.number("sys/kernel/realtime"), version) == Some(true) {
        return Some("rt".into());
    }
    let in_force = tree.text("sys/kernel/debug/sched/preempt");
    if let Some(model) = in_force.as_deref().and_then(chosen) {
        return Some(model.into());
    }
    let stated = version.and_then(|version| stated(version, release));
    stated.or_else(|| config.preemption()).map(Into::into)
}

/// The word in parentheses of `none voluntary (full) lazy`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('(')?;
    let (word, _) = rest.split_once(')')?;
    ["none", "voluntary", "full", "lazy"].contains(&word).then_some(word)
}

/// The model in a version string (init/Makefile: PREEMPT, PREEMPT_DYNAMIC, PREEMPT_RT). The absence of such a word
/// means `none` or `voluntary`. Since Linux 6.13 PREEMPT means `full` or `lazy`. In these cases only the configuration
/// decides.
fn stated(version: &str, release: Option<&str>) -> Option<&'static str> {
    let mut words = version.split_ascii_whitespace();
    match words.find(|word| word.starts_with("PREEMPT"))? {
        "PREEMPT_DYNAMIC" => Some("dynamic"),
        "PREEMPT" if release.and_then(numbers).is_some_and(|numbers| numbers < (6, 13)) => Some("full"),
        _ => None,
    }
}

/// Major and minor number of a release.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether PREEMPT_RT is built in: `/sys/kernel/realtime`, or the version string (`PREEMPT_RT`; `PREEMPT RT` before
/// Linux 5.4).
fn is_preempt_rt(realtime: Option<u8>, version: Option<&str>) -> Option<bool> {
    if realtime == Some(1) {
        return Some(true);
    }
    let words: Vec<&str> = version?.split_ascii_whitespace().collect();
    Some(words.contains(&"PREEMPT_RT") || words.windows(2).any(|pair| pair == ["PREEMPT", "RT"]))
}

/// `uname -m`: `/proc/sys/kernel/arch` since Linux 6.1; before that, on the machine itself, the target of this program.
fn architecture(tree: &Tree) -> Option<String> {
    tree.word("proc/sys/kernel/arch").or_else(|| tree.is_machine().then(|| std::env::consts::ARCH.to_string()))
}

// Limits of this process: real-time scheduling, CPUs, memory.

/// `CAP_SYS_NICE` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// The highest real-time priority; an unlimited `RLIMIT_RTPRIO` allows no more.
const HIGHEST_PRIORITY: u64 = 99;

/// Limits on real-time scheduling.
fn real_time(tree: &Tree, preempt_rt: Option<bool>) -> RtLimits {
    let limits = tree.text("proc/self/limits").unwrap_or_default();
    let status = tree.text("proc/self/status").unwrap_or_default();
    let memlock = soft_limit(&limits, "Max locked memory");
    let rtprio = soft_limit(&limits, "Max realtime priority");
    RtLimits {
        period_us: tree.number("proc/sys/kernel/sched_rt_period_us"),
        runtime_us: tree.number("proc/sys/kernel/sched_rt_runtime_us"),
        fair_server: fair_server(tree),
        rtprio_limit: rtprio.map(|limit| limit.unwrap_or(HIGHEST_PRIORITY)),
        cap_sys_nice: capability(&status, CAP_SYS_NICE),
        memlock_bytes: memlock.flatten(),
        memlock_unlimited: memlock.map(|limit| limit.is_none()),
        preempt_rt,
    }
}

/// The fair server with the largest share of its CPU; `None`: none can be read.
fn fair_server(tree: &Tree) -> Option<FairServer> {
    let servers = tree.numbered("sys/kernel/debug/sched/fair_server", "cpu");
    let one = |(_, folder): (u32, PathBuf)| {
        let [runtime_ns, period_ns] = ["runtime", "period"].map(|name| tree.number(folder.join(name)));
        Some(FairServer { runtime_ns: runtime_ns?, period_ns: period_ns.filter(|period| *period > 0)? })
    };
    let share = |server: &FairServer| server.runtime_ns.saturating_mul(1_000_000) / server.period_ns;
    servers.into_iter().filter_map(one).max_by_key(share)
}

/// The soft limit, which is the effective one, from a line of `/proc/<pid>/limits`; the inner `None`: unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<Option<u64>> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// A field of `/proc/<pid>/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

/// Whether a capability is effective.
fn capability(status: &str, number: u32) -> Option<bool> {
    let effective = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
    Some(effective >> number & 1 == 1)
}

/// The online CPUs that this process may use. The mask alone may contain CPUs that do not exist.
fn cpus_allowed(tree: &Tree) -> Option<String> {
    let status = tree.text("proc/self/status")?;
    let list = |text: &str| cpus_in(text).filter(|cpus| !cpus.is_empty());
    let mask = list(field(&status, "Cpus_allowed_list")?)?;
    let online = tree.text("sys/devices/system/cpu/online").and_then(|text| list(&text));
    let may_run = |cpu: &usize| online.as_ref().is_none_or(|online| online.contains(*cpu));
    Some(mask.iter().filter(may_run).collect::<CpuSet>().to_string())
}

/// `MemTotal`.
fn memory_kb(tree: &Tree) -> Option<u64> {
    let meminfo = tree.text("proc/meminfo")?;
    field(&meminfo, "MemTotal")?.split_ascii_whitespace().next()?.parse().ok()
}

/// The first figure of `/proc/loadavg`.
fn load1(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn models_of_version_strings() {
        let cases = [
            ("#1 SMP PREEMPT_DYNAMIC Debian 6.1.90-1", "6.1.0", Some("dynamic")),
            ("#1 SMP PREEMPT Mon Jan 1", "5.15.84-v8+", Some("full")),
            ("#1 SMP PREEMPT Mon Jan 1", "6.13.0", None),
            ("#1 SMP Debian 5.10.1", "5.10.0", None),
        ];
        for (version, release, model) in cases {
            assert_eq!(stated(version, Some(release)), model, "{version}");
        }
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT_RT Debian")), Some(true));
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT RT Mon")), Some(true));
        assert_eq!(is_preempt_rt(Some(1), None), Some(true));
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT")), Some(false));
        assert_eq!(is_preempt_rt(None, None), None);
    }

    #[test]
    fn model_in_force() {
        assert_eq!(chosen("none voluntary (full) lazy"), Some("full"));
        assert_eq!(chosen("none voluntary full"), None);
    }

    #[test]
    fn configuration() {
        let config = Config(Some(
            "# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n".into(),
        ));
        assert_eq!((config.hz(), config.preemption()), (Some(250), Some("voluntary")));
        assert_eq!((Config(None).hz(), Config(None).preemption()), (None, None));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (chosen(&text), stated(&text, Some(&text)), numbers(&text), is_preempt_rt(None, Some(&text)), unpack(&bytes));
            let config = Config(Some(text));
            let _ = (config.hz(), config.preemption());
        }
    }

    #[test]
    fn limits() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max locked memory         8388608              unlimited            bytes     \n\
                    Max realtime priority     unlimited            unlimited                      \n";
        assert_eq!(soft_limit(text, "Max locked memory"), Some(Some(8_388_608)));
        assert_eq!(soft_limit(text, "Max realtime priority"), Some(None));
        assert_eq!(soft_limit(text, "Max nice priority"), None);
    }

    #[test]
    fn capabilities() {
        assert_eq!(capability("CapEff:\t0000000000800000\n", CAP_SYS_NICE), Some(true));
        assert_eq!(capability("CapEff:\t000001ffff7fffff\n", CAP_SYS_NICE), Some(false));
        assert_eq!(capability("CapEff:\tzz\n", CAP_SYS_NICE), None);
        assert_eq!(capability("", CAP_SYS_NICE), None);
    }

    proptest! {
        #[test]
        fn no_garbage_of_limits_panics(text in "(CapEff:|Max locked memory|MemTotal:)?.{0,60}") {
            let _ = (soft_limit(&text, "Max locked memory"), capability(&text, 23), load1(&text), field(&text, "MemTotal"));
        }
    }
}
