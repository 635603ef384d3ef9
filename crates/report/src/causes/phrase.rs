//! A cause of lateness in words: as a name, as what becomes of a time, and what a program or a machine changes against it. The gain of
//! such a remedy is not measured: nothing here says how much it brings.

use std::borrow::Cow;
use std::time::Duration;

use punctual_record::remedy::{self, Policy, Value};
use punctual_record::{Cause, CulpritPolicy, Host, LatePart};

/// Characters of a name from the kernel: a thread has at most 15, a worker with its queue some more.
const NAME: usize = 32;

/// A name from the kernel or from a file, on one line and short.
pub(super) fn name(text: &str) -> String {
    let text = punctual_record::sanitize::line(text, NAME);
    if text.trim().is_empty() { "unnamed".to_owned() } else { text }
}

/// A cause with its culprit, on a machine that is a guest or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Why<'a> {
    pub(super) cause: Cause,
    pub(super) culprit: Option<&'a str>,
    /// Whether the run was measured in a virtual machine.
    pub(super) guest: bool,
}

/// Who or what had the CPU, where neither a thread nor an interrupt is known to have had it.
fn beyond(guest: bool) -> &'static str {
    if guest { "hypervisor" } else { "firmware" }
}

impl Why<'_> {
    /// `timer slack`, `kworker/1:2 ran`, `softirq NET_RX`.
    pub(super) fn label(&self) -> String {
        let culprit = self.culprit.map(name);
        let or = |named: &dyn Fn(&str) -> String, without: &str| culprit.as_deref().map_or(without.to_owned(), named);
        match self.cause {
            Cause::TimerSlack => "timer slack".to_owned(),
            Cause::IdleState => or(&|state| format!("leaving idle state {state}"), "leaving an idle state"),
            Cause::DeviceInterrupt => or(&|device| format!("interrupt {device}"), "a device's interrupt"),
            Cause::Softirq => or(&|softirq| format!("softirq {softirq}"), "a softirq"),
            Cause::Nmi => or(&|handler| format!("NMI {handler}"), "an NMI"),
            Cause::InterruptsOff => {
                let off = format!("interrupts off or {}", beyond(self.guest));
                or(&|thread| format!("{off}, while {thread} ran"), &off)
            }
            Cause::Host => format!("all CPUs stopped by the {}", if self.guest { "host" } else { "firmware" }),
            Cause::OtherTimers => or(&|timer| format!("timer {timer} first"), "other timers first"),
            Cause::TimerPath => "the kernel's timer path".to_owned(),
            Cause::OtherThread => or(&|thread| format!("{thread} ran"), "another thread ran"),
            Cause::NotPreempted => {
                or(&|thread| format!("{thread} was not preempted"), "a lower priority was not preempted")
            }
            Cause::ContextSwitch => "the context switch".to_owned(),
            Cause::Quota => "cgroup quota".to_owned(),
            Cause::RtThrottling => "real-time throttling or the fair server".to_owned(),
            Cause::Migration => "migration to another CPU".to_owned(),
            Cause::Stopped => "stopped by a signal or a tracer".to_owned(),
            Cause::PageFault => "page faults".to_owned(),
            Cause::Signal => "signal delivery".to_owned(),
            Cause::Preempted => or(&|thread| format!("preempted by {thread}"), "preempted on the way back"),
            Cause::ReturnPath => "the kernel's return path".to_owned(),
        }
    }

    /// What becomes of a time that the cause takes: `is timer slack`, `passes while kworker/1:2 runs`.
    pub(super) fn predicate(&self) -> String {
        let culprit = self.culprit.map(name);
        let who = |other: &str| culprit.clone().unwrap_or_else(|| other.to_owned());
        match self.cause {
            Cause::IdleState => format!("is {}", self.label()),
            Cause::InterruptsOff => match &culprit {
                Some(thread) => {
                    format!("passes with interrupts off or in the {}, while {thread} runs", beyond(self.guest))
                }
                None => format!("passes with interrupts off or in the {}", beyond(self.guest)),
            },
            Cause::Host => format!("passes while the {} stops all CPUs", if self.guest { "host" } else { "firmware" }),
            Cause::OtherTimers => format!(
                "passes while {} served",
                culprit.map_or("other timers are".to_owned(), |timer| format!("timer {timer} is"))
            ),
            Cause::OtherThread => format!("passes while {} runs", who("another thread")),
            Cause::NotPreempted => format!("passes while {} is not preempted", who("a lower priority")),
            Cause::Stopped => "passes while a signal or a tracer stops it".to_owned(),
            Cause::Preempted => format!("passes while {} preempts it", who("another thread")),
            _ => format!("is {}", self.label()),
        }
    }
}

/// The same of a cause with several culprits, of which one took the most.
pub(super) fn several(cause: Cause, most: &str) -> String {
    let most = name(most);
    match cause {
        Cause::IdleState => format!("is leaving idle states ({most} most)"),
        Cause::DeviceInterrupt => format!("is interrupts of devices ({most} most)"),
        Cause::Softirq => format!("is softirqs ({most} most)"),
        Cause::OtherTimers => format!("passes while other timers are served ({most} most)"),
        Cause::OtherThread => format!("passes while other threads run ({most} most)"),
        Cause::NotPreempted => format!("passes while lower priorities are not preempted ({most} most)"),
        Cause::Preempted => format!("passes while others preempt it ({most} most)"),
        Cause::InterruptsOff => format!("passes with interrupts off or beyond the kernel ({most} ran most)"),
        _ => Why { cause, culprit: None, guest: false }.predicate(),
    }
}

/// The name of a cause, on a guest or not.
pub(crate) fn label(cause: Cause, culprit: Option<&str>, guest: bool) -> String {
    Why { cause, culprit, guest }.label()
}

/// What becomes of a time that a cause takes, on a guest or not.
pub(crate) fn predicate(cause: Cause, culprit: Option<&str>, guest: bool) -> String {
    Why { cause, culprit, guest }.predicate()
}

/// A part of the lateness, by where it begins and ends.
pub(crate) fn part(part: LatePart) -> &'static str {
    match part {
        LatePart::TimerSet => "timer set later",
        LatePart::TimerInterrupt => "expiry to interrupt",
        LatePart::TimerFunction => "interrupt to timer function",
        LatePart::WakeUp => "timer function to wake-up",
        LatePart::RunQueue => "run queue",
        LatePart::Return => "return of the call",
    }
}

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
        Cause::Stopped => Remedy::new("no signal that stops it, no tracer", ""),
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

    fn why(cause: Cause, culprit: Option<&str>) -> [String; 2] {
        let why = Why { cause, culprit, guest: true };
        [why.label(), why.predicate()]
    }

    #[test]
    fn causes_have_the_words_of_the_field() {
        assert_eq!(why(Cause::TimerSlack, None), ["timer slack", "is timer slack"]);
        assert_eq!(why(Cause::IdleState, Some("C1")), ["leaving idle state C1", "is leaving idle state C1"]);
        assert_eq!(why(Cause::OtherThread, Some("kworker/1:2")), ["kworker/1:2 ran", "passes while kworker/1:2 runs"]);
        assert_eq!(why(Cause::Softirq, Some("NET_RX")), ["softirq NET_RX", "is softirq NET_RX"]);
        assert_eq!(
            why(Cause::InterruptsOff, Some("cc1")),
            [
                "interrupts off or hypervisor, while cc1 ran",
                "passes with interrupts off or in the hypervisor, while cc1 runs"
            ]
        );
        assert_eq!(several(Cause::OtherThread, "cc1"), "passes while other threads run (cc1 most)");
    }

    #[test]
    fn a_hypervisor_is_blamed_in_a_guest_only() {
        let why = Why { cause: Cause::InterruptsOff, culprit: None, guest: false };
        assert_eq!(
            [why.label(), why.predicate()],
            ["interrupts off or firmware", "passes with interrupts off or in the firmware"]
        );
        assert_eq!(Why { cause: Cause::Host, ..why }.label(), "all CPUs stopped by the firmware");
    }

    #[test]
    fn a_hostile_name_is_short_and_obeyed_by_no_terminal() {
        let [label, predicate] = why(Cause::OtherThread, Some(&"\u{1b}[2J<b>".repeat(100)));
        for text in [label, predicate] {
            assert!(!text.contains('\u{1b}') && text.chars().count() < 60, "{text}");
        }
    }

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
        let remedy = |culprit| {
            let why = Why { cause: Cause::OtherThread, culprit: Some(culprit), guest: false };
            super::remedy(&why, Place { host: &host, foreign: true }).map(|remedy| remedy.short)
        };
        assert_eq!(remedy("irq/24 (real-time 50)"), Some("a higher priority or another CPU"));
        assert_eq!(remedy("dl (SCHED_DEADLINE)"), Some("another CPU"));
        assert_eq!(remedy("cc1 (nice 5)"), Some("SCHED_FIFO or another CPU"));
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
