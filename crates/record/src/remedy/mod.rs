//! [`Remedy`]: a condition as a remedy, in words. What it acts on, the code that sets it, its price, and its flag.
//!
//! Input: a [`Value`] of the library, or a [`Setting`] of a record. `condition` has the words of each, and is the only place with
//! them; a method's own code is in its series. Text in a record that is no value of its condition has no remedy.
//!
//! A [`LossRemedy`] is one line: it fits the settings of the thread that loses time and of the one that takes it. Where a condition of the library helps, its words and its command are those of [`Remedy`]. The gain is not measured.

use std::time::Duration;

use condition::{code, flag, price, running, value};
use punctual::conditions::Condition;

use crate::model::{Cause, Code, Loss, LossKind, LossPlace, Price, Setting, Stop, StopSignal, ThreadPolicy};

mod condition;
mod need;

pub use punctual::Policy;
pub use punctual::conditions::{Frequency, Value};

pub use condition::{Flag, Switch, Takes, acts_on, if_lost, param, phrase, phrase_of, switch_of};
pub use need::{of_need, of_refused};

/// A condition as a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Its stable name, that of the condition: `timer-slack`.
    pub id: &'static str,
    /// Its name for people: `slack 1 ns`.
    pub name: String,
    /// The causes that it acts on; empty: it may change anything.
    pub acts_on: &'static [Cause],
    /// What to write.
    pub code: Code,
    /// A line for the shell that changes a running thread, `TID`.
    pub running: Option<String>,
    /// What it costs.
    pub price: Price,
    /// The flag that sets it.
    pub flag: Flag,
}

impl Remedy {
    /// The remedy that this value is.
    #[must_use]
    pub fn for_value(value: &Value) -> Self {
        let id = value.condition().name();
        Self {
            id,
            name: phrase(value),
            acts_on: acts_on(id),
            code: code(value),
            running: running(value),
            price: price(value),
            flag: flag(value),
        }
    }

    /// The remedy that a setting of a record is, with the value that held, or that was asked where that could not be read.
    #[must_use]
    pub fn of_setting(setting: &Setting) -> Option<Self> {
        let condition = Condition::named(&setting.condition)?;
        let shown = setting.applied.as_ref().or(setting.asked.as_ref())?;
        Some(Self::for_value(&value(condition, shown)?))
    }
}

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
        // Without a culprit, several threads had the CPU in turn.
        let text =
            if self.culprit.is_some() { "give one of the two another CPU" } else { "move it to a CPU with less load" };
        LossRemedy { text: text.to_owned(), command }
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
            (ThreadPolicy::RealTime(own), Some(ThreadPolicy::RealTime(other))) if own <= other && other < 99 => {
                self.set(&Value::Policy(Policy::Fifo(other + 1)))
            }
            (ThreadPolicy::RealTime(_) | ThreadPolicy::Deadline, _)
            | (_, Some(ThreadPolicy::RealTime(_) | ThreadPolicy::Deadline)) => self.apart(),
            (ThreadPolicy::Idle, _) => self.set(&Value::Policy(Policy::Other)),
            (ThreadPolicy::Fair(nice), _) if nice > 0 => self.set(&Value::Nice(0)),
            (ThreadPolicy::Fair(_), Some(ThreadPolicy::Fair(other))) if other < 19 => {
                let Some((culprit, _)) = self.culprit.filter(|(tid, _)| *tid != 0) else { return self.apart() };
                let command = Remedy::for_value(&Value::Nice(19)).running;
                let command = command.map(|line| line.replace("TID", &culprit.to_string()));
                LossRemedy { text: "nice 19 for the other thread, or another CPU for one".to_owned(), command }
            }
            (ThreadPolicy::Fair(_), _) => self.apart(),
        }
    }
}

/// What to do about a call that waits for the disk. Of those of data, one can do the work of many.
fn apart_from_the_disk(call: Option<&str>) -> String {
    let Some(call) = call else { return "what waits for the disk in a thread of its own".to_owned() };
    match call {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev" | "pwrite64" | "pwritev"
        | "pwritev2" | "fsync" | "fdatasync" | "sync_file_range" | "msync" => {
            format!("fewer calls of {call}, each for more, or in a thread of their own")
        }
        "io_uring_enter" => "more requests in flight, so that one wait is for many".to_owned(),
        _ => format!("{call} in a thread of its own"),
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
        LossKind::HogThread | LossKind::Polling if threads.barred_idle.is_some() => Some(threads.apart()),
        // The scheduler moves threads to idle CPUs by itself. Where it had none, another CPU is no remedy.
        LossKind::HogThread => say("fewer threads that compute at once, or more CPUs for them"),
        LossKind::Polling => say("wait in the kernel (futex, poll) instead of polling, or a CPU for each thread"),
        LossKind::Interrupts => {
            Some(LossRemedy { text: "move the interrupts or the thread to another CPU".to_owned(), ..threads.apart() })
        }
        LossKind::Host => say("more or pinned CPUs for this virtual machine, on the host"),
        LossKind::TimerSlack => Some(threads.set(&Value::TimerSlack(Duration::from_nanos(1)))),
        LossKind::CoarseTimeout => say("ppoll(2) with the time-out before the call: it counts in nanoseconds"),
        LossKind::Disk => say(&apart_from_the_disk(call.as_deref())),
        // Which of the two it is, is not known.
        LossKind::Lock if loss.place.lock.is_none() && !loss.place.file_lock && loss.place.holder.is_some() => None,
        LossKind::Lock | LossKind::Chain => say("hold the lock for a shorter time, or divide what it protects"),
        LossKind::StarvedServer => say("give the other end its CPU"),
        LossKind::DelayedAck if loss.place.peer.is_none() => {
            say("at the other end, TCP_NODELAY or one write for each answer; at this one, TCP_QUICKACK")
        }
        LossKind::DelayedAck => say("TCP_NODELAY, or one write for each request"),
        LossKind::FaultFile => say("read the file before (MAP_POPULATE, posix_fadvise(2), mlock(2))"),
        LossKind::FaultSwap | LossKind::Reclaim if cgroup.is_none() => say("use less memory, or add memory"),
        LossKind::FaultSwap | LossKind::Reclaim => say(&format!("a higher memory limit{of_group}, or less memory")),
        LossKind::FaultCopy if call.is_some() => say("fork from a small process, use posix_spawn(3), or huge pages"),
        LossKind::FaultNew => {
            say("touch the memory before it is needed (MAP_POPULATE, mlockall(2)), or huge pages (MADV_HUGEPAGE)")
        }
        LossKind::MmapLock => say("map and unmap less in other threads, or in another process"),
        LossKind::Allocator => say("keep the memory (of malloc(3): M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of mallopt(3))"),
        LossKind::InterpreterLock => say("sys.setswitchinterval(1e-4), or processes instead of threads"),
        LossKind::EventLoop => say("a call that does not block, or a thread for what blocks"),
        // Go's runs beside the program already.
        LossKind::Collector if loss.place.function.is_some() => say("less garbage, or more memory for it (GOGC=400)"),
        LossKind::Collector => say("less garbage, or a collector that runs beside the program"),
        LossKind::OwnWork => say("less work in a turn, or more threads for it"),
        LossKind::Tracer => say("detach the tracer"),
        // Only a job in the background is stopped by its own terminal.
        LossKind::Stopped => match loss.place.stop? {
            Stop { signal: StopSignal::Ttin, by_kernel: true } => {
                say("bring it to the foreground (fg), or give it another input (< /dev/null)")
            }
            Stop { signal: StopSignal::Ttou, by_kernel: true } => say("bring it to the foreground (fg)"),
            _ => None,
        },
        LossKind::FaultCopy
        | LossKind::Frozen
        | LossKind::Supervisor
        | LossKind::Condition
        | LossKind::Pipe
        | LossKind::MessageQueue
        | LossKind::Socket
        | LossKind::Barrier
        | LossKind::Child
        | LossKind::Spawn
        | LossKind::OnTime
        | LossKind::Computes
        | LossKind::Input
        | LossKind::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
