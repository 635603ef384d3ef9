//! A change of conditions as advice: what it is called, what it costs, and what to write, in C and from the shell.

use punctual_record::ConditionSet;

use crate::naming::cpu_list;
use crate::plain::plain;
use crate::story::unbroken;
use crate::style::Style;
use crate::units;
use crate::words::{self, Figure, Kind, Lever};

/// A change in words.
pub(super) struct Remedy {
    /// What it is called, also where it makes no difference.
    pub(super) name: String,
    /// What it costs, with the words that lead to the code.
    pub(super) price: &'static str,
    /// Lines of C and of shell.
    pub(super) code: Option<String>,
}

/// What the change is; nothing where its facts are missing from the run.
pub(super) fn remedy(lever: &Lever<'_, '_>, style: &Style) -> Option<Remedy> {
    let (from, to) = lever.leader()?;
    let policy = plain(lever.to.applied.policy.as_deref()?, style);
    match lever.kind {
        Kind::Slack => slack(lever.from, lever.to, &policy, style),
        Kind::Policy => Some(real_time(from, to, &policy)),
        Kind::Cpus => pinned(lever.from, lever.to, style),
        Kind::LockMemory => Some(locked()),
        Kind::DmaLatency => awake(lever.to, style),
    }
}

fn real_time(from: &Figure<'_>, to: &Figure<'_>, policy: &str) -> Remedy {
    let chrt = policy.split_once(':').map(|(name, priority)| format!("chrt --{name} {priority} PROGRAM"));
    Remedy {
        name: format!("{} instead of {}", words::running(&to.conditions), words::running(&from.conditions)),
        price: "Needs an rtprio limit or CAP_SYS_NICE. A thread that loops without sleeping then keeps all others off its CPU: \
                let it sleep in every turn. In C, or from the shell:",
        code: words::policy_call(policy).zip(chrt).map(|(call, chrt)| format!("{call}\n{chrt}")),
    }
}

fn slack(from: &ConditionSet, to: &ConditionSet, policy: &str, style: &Style) -> Option<Remedy> {
    let ns = |set: &ConditionSet| set.applied.timer_slack_ns.and_then(|ns| i64::try_from(ns).ok());
    let (large, small) = (ns(from)?, ns(to)?);
    let exact = |ns: i64| unbroken(&units::exact(ns, style));
    let under = if policy == "other" { String::new() } else { format!(" under {}", unbroken(policy)) };
    // proc_pid_timerslack_ns(5): since Linux 4.6, for others with CAP_SYS_NICE since 4.9.
    let outside = format!("echo {small} > /proc/PID/timerslack_ns");
    Some(Remedy {
        name: format!("timer slack {} instead of {}{under}", exact(small), exact(large)),
        price: "Timers are then hardly ever served together, which costs energy where many threads do it. In C, or from \
                outside for a running program (its main thread and those that this one starts later; needs CAP_SYS_NICE):",
        code: words::slack_call(to).map(|call| format!("{call}\n{outside}")),
    })
}

fn pinned(from: &ConditionSet, to: &ConditionSet, style: &Style) -> Option<Remedy> {
    let (all, list) = (from.applied.cpus.as_deref()?, to.applied.cpus.as_deref()?);
    let name = |list: &str| unbroken(&cpu_list(list, style));
    // A list of several CPUs takes several lines of C.
    let call = list.parse::<u32>().ok().map(|cpu| {
        format!("cpu_set_t cpus; CPU_ZERO(&cpus); CPU_SET({cpu}, &cpus);\nsched_setaffinity(0, sizeof cpus, &cpus);\n")
    });
    Some(Remedy {
        name: format!("pinned to {} instead of {}", name(list), name(all)),
        price: "The scheduler can then no longer move it away from a CPU that is busy. In C, or from the shell:",
        code: Some(format!("{}taskset -c {} PROGRAM", call.unwrap_or_default(), plain(list, style))),
    })
}

fn locked() -> Remedy {
    Remedy {
        name: "memory locked".to_owned(),
        price: "All memory of the process then stays resident, used or not; it needs a memlock limit that is large enough, or \
                CAP_IPC_LOCK:",
        code: Some("mlockall(MCL_CURRENT | MCL_FUTURE);".to_owned()),
    }
}

fn awake(to: &ConditionSet, style: &Style) -> Option<Remedy> {
    let us = to.applied.dma_latency_us?;
    let bound = unbroken(&units::exact(i64::from(us) * 1000, style));
    let name = match us {
        0 => "C-states off (DMA latency 0)".to_owned(),
        _ => format!("only C-states that are left within {bound} (DMA latency)"),
    };
    // Documentation/power/pm_qos_interface.rst: four bytes; the request stands while the file is open.
    let bytes: String = us.to_ne_bytes().iter().map(|byte| format!("\\{byte:03o}")).collect();
    let call = format!(
        "int fd = open(\"/dev/cpu_dma_latency\", O_WRONLY);\nint32_t us = {us}; write(fd, &us, sizeof us); /* keep fd open */"
    );
    Some(Remedy {
        name,
        price: "No CPU of the machine then sleeps deeply while the file is open: that costs energy and makes heat. Needs the right to \
                write to /dev/cpu_dma_latency. In C, or around a program in the shell:",
        code: Some(format!("{call}\n(exec 3> /dev/cpu_dma_latency; printf '{bytes}' >&3; PROGRAM)")),
    })
}
