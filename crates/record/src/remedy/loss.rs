//! Remedies for losses, in words, each one line: they fit the settings of the thread that loses time and of the one that takes it.
//!
//! Where a condition of the library helps, its words and its command are those of [`Remedy`]. The gain is not measured.

use std::time::Duration;

use punctual::Policy;
use punctual::conditions::Value;

use super::Remedy;
use crate::model::{Loss, LossKind, LossPlace, ThreadPolicy};

/// A remedy for a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossRemedy {
    /// What to do.
    pub text: String,
    /// A line for the shell, for the thread as it runs.
    pub command: Option<String>,
}

/// The threads of a loss, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossThreads {
    /// The number of the thread that loses time; 0: unknown.
    pub tid: u32,
    /// Its policy.
    pub policy: ThreadPolicy,
    /// The thread that has the CPU meanwhile.
    pub culprit: Option<(u32, ThreadPolicy)>,
    /// That thread is in another control group: CPU time is divided between the groups before nice values count.
    pub in_another_group: bool,
    /// A CPU that the thread that loses time may not use, and that was idle.
    pub barred_idle: Option<u32>,
}

impl LossThreads {
    /// A value that a condition sets, for the thread that loses time as it runs.
    fn set(&self, value: &Value) -> LossRemedy {
        let remedy = Remedy::for_value(value);
        let command = remedy.running.filter(|_| self.tid != 0);
        let command = command.map(|line| line.replace("TID", &self.tid.to_string()));
        LossRemedy { text: remedy.name, command }
    }

    /// Another CPU, where the threads cannot share one.
    fn apart(&self) -> LossRemedy {
        if let Some(cpu) = self.barred_idle {
            let command = (self.tid != 0).then(|| format!("taskset -cp {cpu} {}", self.tid));
            let text = format!("let it use CPU {cpu}, which was idle");
            return LossRemedy { text, command };
        }
        let command = (self.tid != 0).then(|| format!("taskset -cp CPU {}", self.tid));
        LossRemedy { text: "give one of the two another CPU".to_owned(), command }
    }

    /// Against a thread that is preferred, or as good.
    fn before_the_culprit(&self) -> LossRemedy {
        match (self.policy, self.culprit.map(|(_, policy)| policy)) {
            _ if self.barred_idle.is_some() => self.apart(),
            (ThreadPolicy::Fair(_), Some(ThreadPolicy::Fair(_))) if self.in_another_group => LossRemedy {
                text: "a larger weight for its control group (cpu.weight; version 1: cpu.shares), or another CPU"
                    .to_owned(),
                command: None,
            },
            (ThreadPolicy::RealTime(_), Some(ThreadPolicy::RealTime(other))) if other < 99 => {
                self.set(&Value::Policy(Policy::Fifo(other + 1)))
            }
            (ThreadPolicy::RealTime(_) | ThreadPolicy::Deadline, _)
            | (_, Some(ThreadPolicy::RealTime(_) | ThreadPolicy::Deadline)) => self.apart(),
            (ThreadPolicy::Idle, _) => self.set(&Value::Policy(Policy::Other)),
            (ThreadPolicy::Fair(nice), _) if nice > 0 => self.set(&Value::Nice(0)),
            (ThreadPolicy::Fair(_), Some(ThreadPolicy::Fair(_))) => {
                let Some((culprit, _)) = self.culprit.filter(|(tid, _)| *tid != 0) else { return self.apart() };
                let command = Remedy::for_value(&Value::Nice(19)).running;
                let command = command.map(|line| line.replace("TID", &culprit.to_string()));
                LossRemedy { text: "nice 19 for the other thread, or another CPU for one".to_owned(), command }
            }
            (ThreadPolicy::Fair(_), _) => self.apart(),
        }
    }
}

/// What to do about a loss; `None` where nothing general is known.
#[must_use]
pub fn of_loss(loss: &Loss, threads: &LossThreads) -> Option<LossRemedy> {
    let LossPlace { cgroup, call, .. } = &loss.place;
    let of_group = cgroup.as_ref().map_or(String::new(), |path| format!(" of {path}"));
    let say = |text: &str| Some(LossRemedy { text: text.to_owned(), command: None });
    match loss.kind {
        LossKind::Quota => say(&format!("a larger CPU quota{of_group} (cpu.max; version 1: cpu.cfs_quota_us)")),
        LossKind::ThreadsOverQuota => say("no more threads than the quota feeds (GOMAXPROCS, OMP_NUM_THREADS, -j)"),
        LossKind::RtLimit => say(&format!("a higher limit{of_group} (cpu.rt_runtime_us, kernel.sched_rt_runtime_us)")),
        LossKind::DeadlineBudget => say("a larger runtime in sched_setattr(2), or less work in a period"),
        LossKind::Nice | LossKind::IdlePolicy | LossKind::HogProcess | LossKind::HogFifo => {
            Some(threads.before_the_culprit())
        }
        LossKind::HogThread => Some(threads.apart()),
        LossKind::Polling if threads.barred_idle.is_some() => Some(threads.apart()),
        LossKind::Polling => say("wait in the kernel (futex, poll) instead of polling, or a CPU for each thread"),
        LossKind::Interrupts => {
            Some(LossRemedy { text: "move the interrupts or the thread to another CPU".to_owned(), ..threads.apart() })
        }
        LossKind::Host => say("more or pinned CPUs for this virtual machine, on the host"),
        LossKind::TimerSlack => Some(threads.set(&Value::TimerSlack(Duration::from_nanos(1)))),
        LossKind::CoarseTimeout => say("ppoll(2) with the time-out before the call: it counts in nanoseconds"),
        LossKind::Disk => say(&format!(
            "fewer calls of {}, each for more, or in a thread of their own",
            call.as_deref().unwrap_or("the disk")
        )),
        LossKind::Lock | LossKind::Chain => say("hold the lock for a shorter time, or divide what it protects"),
        LossKind::StarvedServer => say("give the other end its CPU"),
        LossKind::DelayedAck => say("TCP_NODELAY, or one write for each request"),
        LossKind::FaultFile => say("read the file before (MAP_POPULATE, posix_fadvise(2), mlock(2))"),
        LossKind::FaultSwap | LossKind::Reclaim => say(&format!("a higher memory limit{of_group}, or less memory")),
        LossKind::FaultCopy => say("fork from a small process, use posix_spawn(3), or huge pages"),
        LossKind::MmapLock => say("map and unmap less in other threads, or in another process"),
        LossKind::Allocator => say("keep freed memory (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of mallopt(3))"),
        LossKind::InterpreterLock => say("sys.setswitchinterval(1e-4), or processes instead of threads"),
        LossKind::EventLoop => say("a call that does not block, or a thread for what blocks"),
        LossKind::Collector => say("less garbage, or a collector that runs beside the program"),
        LossKind::OwnWork => say("less work in a turn, or more threads for it"),
        LossKind::Tracer => say("detach the tracer"),
        LossKind::Stopped
        | LossKind::Frozen
        | LossKind::Supervisor
        | LossKind::Condition
        | LossKind::Pipe
        | LossKind::Socket
        | LossKind::Barrier
        | LossKind::Child
        | LossKind::OnTime
        | LossKind::Computes
        | LossKind::Input => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(kind: LossKind, policy: ThreadPolicy, culprit: Option<(u32, ThreadPolicy)>) -> Option<LossRemedy> {
        let loss = Loss { kind, ns: 1, times: 1, subject: "server".into(), tid: 0, place: LossPlace::default() };
        of_loss(&loss, &LossThreads { tid: 7, policy, culprit, ..LossThreads::default() })
    }

    #[test]
    fn a_remedy_fits_the_settings_of_both_threads() {
        let fair = ThreadPolicy::Fair(0);
        let fifo = ThreadPolicy::RealTime(20);
        let said = |kind, policy, culprit| remedy(kind, policy, Some((9, culprit))).unwrap();
        let command = |kind, policy, culprit| said(kind, policy, culprit).command.unwrap();
        assert_eq!(command(LossKind::Nice, ThreadPolicy::Fair(19), fair), "renice -n 0 -p 7");
        assert_eq!(command(LossKind::IdlePolicy, ThreadPolicy::Idle, fair), "chrt --other --pid 0 7");
        assert_eq!(command(LossKind::HogProcess, fair, fair), "renice -n 19 -p 9");
        assert_eq!(command(LossKind::HogFifo, fair, fifo), "taskset -cp CPU 7", "no nice value helps");
        assert_eq!(
            command(LossKind::HogFifo, ThreadPolicy::Idle, fifo),
            "taskset -cp CPU 7",
            "nor another fair policy"
        );
        assert_eq!(command(LossKind::HogFifo, fifo, fifo), "chrt --fifo --pid 21 7");
        assert_eq!(
            said(LossKind::HogFifo, ThreadPolicy::RealTime(99), ThreadPolicy::RealTime(99)).text,
            "give one of the two another CPU"
        );
        assert_eq!(command(LossKind::TimerSlack, fair, fair), "echo 1 > /proc/7/timerslack_ns");
    }

    #[test]
    fn a_nice_value_is_no_remedy_against_a_thread_of_another_group() {
        let said = |policy, culprit, in_another_group| {
            let loss = Loss {
                kind: LossKind::HogProcess,
                ns: 1,
                times: 1,
                subject: "server".into(),
                tid: 7,
                place: LossPlace::default(),
            };
            of_loss(
                &loss,
                &LossThreads { tid: 7, policy, culprit: Some((9, culprit)), in_another_group, barred_idle: None },
            )
            .unwrap()
        };
        let fair = ThreadPolicy::Fair(0);
        let weight = said(fair, fair, true);
        assert!(weight.text.contains("cpu.weight") && weight.command.is_none(), "{weight:?}");
        assert_eq!(said(ThreadPolicy::Fair(19), fair, true), weight, "its own nice value counts within its group");
        assert_eq!(said(fair, fair, false).command.as_deref(), Some("renice -n 19 -p 9"));
        let fifo = said(fair, ThreadPolicy::RealTime(20), true);
        assert!(!fifo.text.contains("weight"), "no weight helps against a real-time thread: {fifo:?}");
    }

    #[test]
    fn an_idle_cpu_is_named_where_the_thread_may_not_use_it_and_nowhere_else() {
        let said = |kind, barred_idle| {
            let loss = Loss { kind, ns: 1, times: 1, subject: "server".into(), tid: 7, place: LossPlace::default() };
            let (policy, culprit) = (ThreadPolicy::Fair(19), Some((9, ThreadPolicy::Fair(0))));
            of_loss(&loss, &LossThreads { tid: 7, policy, culprit, barred_idle, ..LossThreads::default() }).unwrap()
        };
        for kind in [LossKind::HogThread, LossKind::HogProcess, LossKind::Nice, LossKind::Polling] {
            let (there, none) = (said(kind, Some(3)), said(kind, None));
            assert_eq!(there.command.as_deref(), Some("taskset -cp 3 7"), "{kind:?}");
            assert!(!none.text.contains("idle"), "{none:?}");
        }
        assert!(!said(LossKind::Quota, Some(3)).text.contains("idle"), "no CPU helps against a quota");
    }

    #[test]
    fn no_remedy_is_named_for_what_is_well_or_wanted() {
        for kind in [LossKind::OnTime, LossKind::Computes, LossKind::Input, LossKind::Stopped, LossKind::Pipe] {
            assert_eq!(remedy(kind, ThreadPolicy::Fair(0), None), None, "{kind:?}");
        }
    }

    #[test]
    fn a_thread_of_no_known_number_has_no_command() {
        let loss = Loss {
            kind: LossKind::TimerSlack,
            ns: 1,
            times: 1,
            subject: String::new(),
            tid: 0,
            place: LossPlace::default(),
        };
        let remedy = of_loss(&loss, &LossThreads::default()).unwrap();
        assert_eq!((remedy.text.as_str(), remedy.command), ("slack 1 ns", None));
    }
}
