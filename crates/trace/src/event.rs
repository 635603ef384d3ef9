//! An event of the kernel, decoded.

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The thread that ran there; 0 is the idle thread.
    pub tid: i32,
    /// What happened.
    pub kind: Kind,
}

impl Event {
    /// The same event on a clock that is ahead by so much.
    pub(crate) fn ahead_by(mut self, offset_ns: i64) -> Self {
        self.time_ns = self.time_ns.saturating_add_signed(offset_ns);
        match &mut self.kind {
            Kind::TimerStart { soft_ns, hard_ns, .. } => {
                (*soft_ns, *hard_ns) = (soft_ns.saturating_add(offset_ns), hard_ns.saturating_add(offset_ns));
            }
            Kind::TimerExpire { now_ns, .. } => *now_ns = now_ns.saturating_add(offset_ns),
            _ => {}
        }
        self
    }
}

/// What happened. Times are CLOCK_MONOTONIC in ns, for timers of that clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the kernel's events")]
pub enum Kind {
    /// The thread set a timer: it may fire from `soft_ns` on, and must at `hard_ns`.
    TimerStart { timer: u64, function: u64, soft_ns: i64, hard_ns: i64 },
    /// A timer's function begins, in an interrupt that read the clock at `now_ns`.
    TimerExpire { timer: u64, function: u64, now_ns: i64 },
    /// A timer's function returned.
    TimerDone { timer: u64 },
    /// A thread is being woken, by the thread or the interrupt that runs.
    Waking { tid: i32, target_cpu: u32 },
    /// The CPU goes from one thread to another. `prev_state` is 0 if the former wanted to run on.
    Switch { prev: Thread, prev_state: i64, next: Thread },
    /// The CPU enters an idle state, or leaves it.
    Idle { state: Option<u32> },
    /// The thread enters a system call.
    Enter { number: i64, args: [u64; 4] },
    /// It leaves one.
    Leave { number: i64, returned: i64 },
    /// A device's interrupt begins.
    Interrupt { irq: i32, name: Name },
    /// It ended.
    InterruptDone,
    /// A softirq begins.
    Softirq { vector: u32 },
    /// It ended.
    SoftirqDone,
    /// A thread that waits to run is moved.
    Migrate { tid: i32, to: u32 },
    /// A thread's priority is changed by a mutex with priority inheritance.
    Inherit { tid: i32, old: i32, new: i32 },
    /// The thread had a page fault.
    Fault,
    /// A signal is delivered to the thread.
    Signal { number: i32 },
    /// An NMI was handled; it took this long.
    Nmi { took_ns: i64 },
    /// A thread was created.
    Fork { parent: i32, child: i32 },
    /// A thread gets another name: by execve(2), prctl(2) or another thread.
    Rename { tid: i32, name: Name },
    /// The thread ends.
    Exit,
}

/// A thread in a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its number; 0 is idle.
    pub tid: i32,
    /// The kernel's priority: below 100 is real-time (99 - sched_priority), -1 SCHED_DEADLINE, 120 nice 0.
    pub prio: i32,
    /// Its name.
    pub name: Name,
}

/// `MAX_RT_PRIO` (include/linux/sched/prio.h): lower is real-time.
pub(crate) const REAL_TIME: i32 = 100;
/// `TASK_STOPPED` and `TASK_TRACED` (include/linux/sched.h).
pub(crate) const STOPPED: i64 = 0x4 | 0x8;
/// What `prev_state` shows of a sleeping thread; a preempted one has `TASK_REPORT_MAX` or nothing.
pub(crate) const ASLEEP: i64 = 0xff;

/// Whether `prev_state` is that of a thread which something must wake.
pub(crate) fn sleeps(prev_state: i64) -> bool {
    prev_state & (ASLEEP | STOPPED) != 0
}

/// The name of a thread, as in `/proc/TID/comm`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// The first 16 bytes.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let mut name = [0; 16];
        let length = text.len().min(16);
        name[..length].copy_from_slice(&text[..length]);
        Self(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or(&self.0);
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}
