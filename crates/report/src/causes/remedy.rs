//! What a program or a machine changes against a cause. Its gain is not measured: nothing here says how much it brings.

use std::borrow::Cow;
use std::time::Duration;

use punctual_record::remedy::{self, Policy, Value};
use punctual_record::{Cause, CulpritPolicy, Host};

use super::phrase::Why;

/// A remedy for a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remedy {
    /// In a cell of a table.
    pub(super) short: &'static str,
    /// Lines of code or commands.
    pub(super) code: Cow<'static, str>,
}

/// Whose lateness it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The machine.
    pub(super) host: &'a Host,
    /// Whether it is another program, whose code may not be at hand.
    pub(super) foreign: bool,
}

impl Remedy {
    const fn new(short: &'static str, code: &'static str) -> Self {
        Self { short, code: Cow::Borrowed(code) }
    }

    /// These lines, a text each.
    fn of_lines(short: &'static str, lines: impl IntoIterator<Item = Option<String>>) -> Self {
        Self { short, code: lines.into_iter().flatten().collect::<Vec<_>>().join("\n").into() }
    }
}

const IRQ_AFFINITY: Remedy = Remedy::new(
    "irq affinity",
    "echo CPUS > /proc/irq/NUMBER/smp_affinity_list\npunctual run --cpu CPU --irqs-away -- PROGRAM",
);
const ANOTHER_CPU: Remedy = Remedy::new("another CPU", "taskset -c CPU PROGRAM");
const PREEMPT: Remedy = Remedy::new("PREEMPT_RT kernel", "");

/// Against an ordinary thread.
fn first() -> Remedy {
    let command = |value: Value| Some(remedy::Remedy::for_value(&value).flag.command());
    let lines = [
        command(Value::Policy(Policy::Fifo(40))),
        Some("punctual run --cpu CPU -- PROGRAM".to_owned()),
        command(Value::Slice(Duration::from_micros(100))),
    ];
    Remedy::of_lines("SCHED_FIFO or another CPU", lines)
}

/// Against a thread that is real-time itself.
const HIGHER: Remedy = Remedy::new(
    "a higher priority or another CPU",
    "punctual run --policy fifo:PRIO -- PROGRAM\npunctual run --cpu CPU -- PROGRAM",
);

fn thread(culprit: Option<&str>) -> Remedy {
    match culprit.and_then(CulpritPolicy::in_name) {
        Some(CulpritPolicy::Deadline) => ANOTHER_CPU,
        Some(CulpritPolicy::RealTime(_)) => HIGHER,
        Some(CulpritPolicy::Nice(_)) | None => first(),
    }
}

/// The remedy for a cause; `None` where none is known.
pub(super) fn remedy(why: &Why<'_>, place: Place<'_>) -> Option<Remedy> {
    let guest = why.guest;
    Some(match why.cause {
        Cause::TimerSlack => slack(place.foreign),
        Cause::IdleState => idle(place.host),
        Cause::DeviceInterrupt => IRQ_AFFINITY,
        Cause::Softirq => softirq(why.culprit),
        Cause::Nmi => Remedy::new("kernel.nmi_watchdog = 0", "sysctl kernel.nmi_watchdog=0"),
        Cause::InterruptsOff if guest => Remedy::new("PREEMPT_RT; pin the vCPU", ""),
        Cause::InterruptsOff => PREEMPT,
        Cause::Host if guest => Remedy::new("pin the vCPUs on the host", ""),
        Cause::Host => Remedy::new("firmware settings (SMI)", ""),
        Cause::OtherTimers => ANOTHER_CPU,
        Cause::OtherThread | Cause::Preempted => thread(why.culprit),
        Cause::NotPreempted => Remedy::new("preempt=full, PREEMPT_RT", "echo full > /sys/kernel/debug/sched/preempt"),
        Cause::Quota => Remedy::new("cpu.max of the cgroup", "echo max > /sys/fs/cgroup/GROUP/cpu.max"),
        Cause::RtThrottling => {
            // Linux 6.12 has the fair server instead of the limit on all real-time threads.
            let code = "sysctl kernel.sched_rt_runtime_us=-1\n\
                        echo 0 > /sys/kernel/debug/sched/fair_server/cpuCPU/runtime";
            Remedy::new("sched_rt_runtime_us = -1, no fair server", code)
        }
        Cause::Migration => {
            Remedy::new("sched_setaffinity, one CPU", "sched_setaffinity(0, sizeof set, &set);\ntaskset -c CPU PROGRAM")
        }
        Cause::Stopped => Remedy::new("no SIGSTOP, no tracer", ""),
        Cause::PageFault => {
            let memory = remedy::Remedy::for_value(&Value::LockMemory(true));
            Remedy::of_lines("mlockall", [memory.code.c, Some(memory.flag.command())])
        }
        Cause::Signal => Remedy::new("pthread_sigmask", "pthread_sigmask(SIG_BLOCK, &set, NULL);"),
        Cause::TimerPath | Cause::ContextSwitch | Cause::ReturnPath => return None,
    })
}

/// Of another program from outside, of the own thread in the program.
fn slack(foreign: bool) -> Remedy {
    let slack = remedy::Remedy::for_value(&Value::TimerSlack(Duration::from_nanos(1)));
    if foreign {
        return Remedy::of_lines("/proc/TID/timerslack_ns = 1", [slack.running, Some(slack.flag.command())]);
    }
    Remedy::of_lines("prctl(PR_SET_TIMERSLACK, 1)", [slack.code.c])
}

/// Without a driver of idle states (the usual guest), the kernel's latency limit does nothing.
fn idle(host: &Host) -> Remedy {
    let driver = host.cpuidle.as_ref().and_then(|idle| idle.driver.as_deref()).filter(|name| *name != "none");
    match driver {
        None if host.cpuidle.is_some() || host.hypervisor.is_some() => Remedy::new("kernel option idle=poll", ""),
        _ => {
            let limit = remedy::Remedy::for_value(&Value::DmaLatency(Duration::ZERO));
            Remedy::of_lines("/dev/cpu_dma_latency = 0", [limit.code.c, Some(limit.flag.command())])
        }
    }
}

/// A softirq runs on the CPU that its device interrupted, or where its timers or callbacks are.
fn softirq(name: Option<&str>) -> Remedy {
    match name {
        Some("RCU") => Remedy::new("kernel option rcu_nocbs=CPU", ""),
        Some("TIMER" | "HRTIMER" | "SCHED") => ANOTHER_CPU,
        _ => IRQ_AFFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_record::Cpuidle;

    fn short(cause: Cause, host: &Host, foreign: bool) -> Option<&'static str> {
        let why = Why { cause, culprit: None, guest: host.hypervisor.is_some() };
        remedy(&why, Place { host, foreign }).map(|remedy| remedy.short)
    }

    #[test]
    fn slack_of_another_program_is_set_from_outside() {
        let host = Host::default();
        assert_eq!(short(Cause::TimerSlack, &host, false), Some("prctl(PR_SET_TIMERSLACK, 1)"));
        assert_eq!(short(Cause::TimerSlack, &host, true), Some("/proc/TID/timerslack_ns = 1"));
    }

    #[test]
    fn a_real_time_thread_yields_to_a_higher_priority_only() {
        let host = Host::default();
        let of = |culprit| {
            let why = Why { cause: Cause::OtherThread, culprit: Some(culprit), guest: false };
            remedy(&why, Place { host: &host, foreign: true }).map(|remedy| remedy.short)
        };
        assert_eq!(of("irq/24 (real-time 50)"), Some("a higher priority or another CPU"));
        assert_eq!(of("dl (SCHED_DEADLINE)"), Some("another CPU"));
        assert_eq!(of("cc1 (nice 5)"), Some("SCHED_FIFO or another CPU"));
    }

    #[test]
    fn a_latency_limit_is_named_where_idle_states_obey_it() {
        let driver = |name: &str| Some(Cpuidle { driver: Some(name.into()), ..Cpuidle::default() });
        let limited = Host { cpuidle: driver("intel_idle"), ..Host::default() };
        assert_eq!(short(Cause::IdleState, &limited, false), Some("/dev/cpu_dma_latency = 0"));
        let without = Host { cpuidle: driver("none"), hypervisor: Some("kvm".into()), ..Host::default() };
        assert_eq!(short(Cause::IdleState, &without, false), Some("kernel option idle=poll"));
    }

    #[test]
    fn the_kernel_s_own_path_has_no_remedy() {
        for cause in [Cause::TimerPath, Cause::ContextSwitch, Cause::ReturnPath] {
            assert_eq!(short(cause, &Host::default(), false), None);
        }
    }
}
