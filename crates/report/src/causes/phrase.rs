//! A cause of lateness in words: as a name, and as what becomes of a time.

use punctual_record::{Cause, LatePart};

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
            Cause::Stopped => "stopped by SIGSTOP or a tracer".to_owned(),
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
            Cause::Stopped => "passes while it is stopped (SIGSTOP or a tracer)".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
