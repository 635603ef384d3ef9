//! What a program or a machine changes against a cause. Its gain is not measured: nothing here says how much it brings.

use punctual_record::{Cause, Host};

use super::phrase::Why;

/// A remedy for a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remedy {
    /// In a cell of a table.
    pub(super) short: &'static str,
    /// Lines of code or commands.
    pub(super) code: &'static str,
}

/// Whose lateness it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The machine.
    pub(super) host: &'a Host,
    /// Whether it is another program, whose code may not be at hand.
    pub(super) foreign: bool,
}

const IRQ_AFFINITY: Remedy = Remedy {
    short: "irq affinity",
    code: "echo CPUS > /proc/irq/NUMBER/smp_affinity_list\npunctual run --cpu CPU --irqs-away -- PROGRAM",
};
const ANOTHER_CPU: Remedy = Remedy { short: "another CPU", code: "taskset -c CPU PROGRAM" };
const PREEMPT: Remedy = Remedy { short: "PREEMPT_RT kernel", code: "" };
const FIRST: Remedy = Remedy {
    short: "SCHED_FIFO or another CPU",
    code: "punctual run --policy fifo:40 -- PROGRAM\npunctual run --cpu CPU -- PROGRAM\npunctual run --slice 100us -- PROGRAM",
};

/// Against a thread that is real-time itself.
const HIGHER: Remedy = Remedy {
    short: "a higher priority or another CPU",
    code: "punctual run --policy fifo:PRIO -- PROGRAM\npunctual run --cpu CPU -- PROGRAM",
};

/// Culprits carry their policy, where it is not the usual one: `irq/24 (real-time 50)`.
fn thread(culprit: Option<&str>) -> Remedy {
    let is = |policy: &str| culprit.is_some_and(|name| name.contains(policy));
    match (is("(SCHED_DEADLINE"), is("(real-time ")) {
        (true, _) => ANOTHER_CPU,
        (_, true) => HIGHER,
        _ => FIRST,
    }
}

/// The remedy for a cause; `None` where none is known.
pub(super) fn remedy(why: &Why<'_>, place: Place<'_>) -> Option<Remedy> {
    let guest = why.guest;
    Some(match why.cause {
        Cause::TimerSlack if place.foreign => Remedy {
            short: "/proc/TID/timerslack_ns = 1",
            code: "echo 1 > /proc/TID/timerslack_ns\npunctual run --timer-slack 1ns -- PROGRAM",
        },
        Cause::TimerSlack => Remedy { short: "prctl(PR_SET_TIMERSLACK, 1)", code: "prctl(PR_SET_TIMERSLACK, 1UL);" },
        Cause::IdleState => idle(place.host),
        Cause::DeviceInterrupt => IRQ_AFFINITY,
        Cause::Softirq => softirq(why.culprit),
        Cause::Nmi => Remedy { short: "kernel.nmi_watchdog = 0", code: "sysctl kernel.nmi_watchdog=0" },
        Cause::InterruptsOff if guest => Remedy { short: "PREEMPT_RT; pin the vCPU", code: "" },
        Cause::InterruptsOff => PREEMPT,
        Cause::Host if guest => Remedy { short: "pin the vCPUs on the host", code: "" },
        Cause::Host => Remedy { short: "firmware settings (SMI)", code: "" },
        Cause::OtherTimers => ANOTHER_CPU,
        Cause::OtherThread | Cause::Preempted => thread(why.culprit),
        Cause::NotPreempted => {
            Remedy { short: "preempt=full, PREEMPT_RT", code: "echo full > /sys/kernel/debug/sched/preempt" }
        }
        Cause::Quota => Remedy { short: "cpu.max of the cgroup", code: "echo max > /sys/fs/cgroup/GROUP/cpu.max" },
        Cause::RtThrottling => {
            // Linux 6.12 has the fair server instead of the limit on all real-time threads.
            let code = "sysctl kernel.sched_rt_runtime_us=-1\n\
                        echo 0 > /sys/kernel/debug/sched/fair_server/cpuCPU/runtime";
            Remedy { short: "sched_rt_runtime_us = -1, no fair server", code }
        }
        Cause::Migration => Remedy {
            short: "sched_setaffinity, one CPU",
            code: "sched_setaffinity(0, sizeof set, &set);\ntaskset -c CPU PROGRAM",
        },
        Cause::Stopped => Remedy { short: "no SIGSTOP, no tracer", code: "" },
        Cause::PageFault => Remedy {
            short: "mlockall",
            code: "mlockall(MCL_CURRENT | MCL_FUTURE);\npunctual run --lock-memory -- PROGRAM",
        },
        Cause::Signal => Remedy { short: "pthread_sigmask", code: "pthread_sigmask(SIG_BLOCK, &set, NULL);" },
        Cause::TimerPath | Cause::ContextSwitch | Cause::ReturnPath => return None,
    })
}

/// Without a driver of idle states (the usual guest), the kernel's latency limit does nothing.
fn idle(host: &Host) -> Remedy {
    let driver = host.cpuidle.as_ref().and_then(|idle| idle.driver.as_deref()).filter(|name| *name != "none");
    match driver {
        None if host.cpuidle.is_some() || host.hypervisor.is_some() => {
            Remedy { short: "kernel option idle=poll", code: "" }
        }
        _ => Remedy {
            short: "/dev/cpu_dma_latency = 0",
            code: "int fd = open(\"/dev/cpu_dma_latency\", O_RDWR); write(fd, &(int32_t){0}, 4);\npunctual run --dma-latency 0us -- PROGRAM",
        },
    }
}

/// A softirq runs on the CPU that its device interrupted, or where its timers or callbacks are.
fn softirq(name: Option<&str>) -> Remedy {
    match name {
        Some("RCU") => Remedy { short: "kernel option rcu_nocbs=CPU", code: "" },
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
