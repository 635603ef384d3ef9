//! Limits of this process: real-time scheduling, CPUs, memory.

use crate::cpu_list::CpuList;
use crate::model::RtLimits;
use crate::tree::Tree;

/// `CAP_SYS_NICE` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// The highest real-time priority; an unlimited `RLIMIT_RTPRIO` allows no more.
const HIGHEST_PRIORITY: u64 = 99;

/// Limits on real-time scheduling.
pub(crate) fn real_time(tree: &Tree, preempt_rt: Option<bool>) -> RtLimits {
    let limits = tree.text("proc/self/limits").unwrap_or_default();
    let status = tree.text("proc/self/status").unwrap_or_default();
    let memlock = soft_limit(&limits, "Max locked memory");
    let rtprio = soft_limit(&limits, "Max realtime priority");
    RtLimits {
        period_us: tree.number("proc/sys/kernel/sched_rt_period_us"),
        runtime_us: tree.number("proc/sys/kernel/sched_rt_runtime_us"),
        rtprio_limit: rtprio.map(|limit| match limit {
            Limit::Of(priority) => priority,
            Limit::Unlimited => HIGHEST_PRIORITY,
        }),
        cap_sys_nice: capability(&status, CAP_SYS_NICE),
        memlock_bytes: match memlock {
            Some(Limit::Of(bytes)) => Some(bytes),
            _ => None,
        },
        memlock_unlimited: memlock.map(|limit| limit == Limit::Unlimited),
        preempt_rt,
    }
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Of(u64),
    Unlimited,
}

/// The soft limit, which is the effective one, from a line of `/proc/<pid>/limits`.
fn soft_limit(limits: &str, name: &str) -> Option<Limit> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(Limit::Unlimited),
        number => number.parse().ok().map(Limit::Of),
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
pub(crate) fn cpus_allowed(tree: &Tree) -> Option<String> {
    let status = tree.text("proc/self/status")?;
    let list = |text: &str| CpuList::read(text).filter(|cpus| !cpus.is_empty());
    let mask = list(field(&status, "Cpus_allowed_list")?)?;
    let online = tree.text("sys/devices/system/cpu/online").and_then(|text| list(&text));
    Some(online.map_or_else(|| mask.clone(), |online| mask.within(&online)).to_string())
}

/// `MemTotal`.
pub(crate) fn memory_kb(tree: &Tree) -> Option<u64> {
    let meminfo = tree.text("proc/meminfo")?;
    field(&meminfo, "MemTotal")?.split_ascii_whitespace().next()?.parse().ok()
}

/// The first figure of `/proc/loadavg`.
pub(crate) fn load1(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max locked memory         8388608              unlimited            bytes     \n\
                    Max realtime priority     unlimited            unlimited                      \n";
        assert_eq!(soft_limit(text, "Max locked memory"), Some(Limit::Of(8_388_608)));
        assert_eq!(soft_limit(text, "Max realtime priority"), Some(Limit::Unlimited));
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
        fn garbage_never_panics(text in "(CapEff:|Max locked memory|MemTotal:)?.{0,60}") {
            let _ = (soft_limit(&text, "Max locked memory"), capability(&text, 23), load1(&text), field(&text, "MemTotal"));
        }
    }
}
