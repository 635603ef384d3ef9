//! Events into a file of the Trace Event Format, which Perfetto (ui.perfetto.dev) and `chrome://tracing` open.
//!
//! Each CPU has a track: the thread that runs, and in it interrupts, softirqs, timer functions and idle states. Each thread with
//! recorded system calls has one: its calls, their lateness, and its waits for a CPU. An arrow leads from what wakes a thread up
//! to its wake-up.
//!
//! What began before the first event is left out. Where the kernel dropped events, all that is open ends. Memory is bounded by
//! the number of CPUs and living threads; the file is written as the events come.

mod cpu;
mod lines;
mod numbers;
mod thread;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use punctual_linux::syscall_name;

use self::cpu::{Cpu, Running};
use self::lines::{Lines, Track};
use self::numbers::Numbers;
use self::thread::Thread;
use crate::clocks::Clocks;
use crate::{Batch, Event, Kind, Target};

/// Tracks that are no threads have numbers that no thread has: those end at `PID_MAX_LIMIT`, 2^22.
const CPUS: u32 = 5_000_000;
const THREADS: u32 = 6_000_000;

/// A trace that is being written.
///
/// ```
/// use punctual_trace::{Batch, ChromeTrace};
///
/// let mut trace = ChromeTrace::new(Vec::new(), 0);
/// trace.take(&Batch::default());
/// assert!(trace.finish()?.ends_with(b"]}\n"));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct ChromeTrace<W: Write> {
    lines: Lines<W>,
    origin_ns: u64,
    /// Since the origin, of the last event.
    now_ns: u64,
    cpus: BTreeMap<u32, Cpu>,
    threads: HashMap<i32, Thread>,
    /// Those that may have a track; None for all.
    watched: Option<HashSet<i32>>,
    with_children: bool,
    clocks: Clocks,
    numbers: Numbers,
    /// Those later than the last event, the earliest first: (time, CPU, number).
    losses: Vec<(u64, u32, u64)>,
}

impl<W: Write> ChromeTrace<W> {
    /// The trace's time 0 is `origin_ns` of CLOCK_MONOTONIC; earlier events are left out.
    pub fn new(writer: W, origin_ns: u64) -> Self {
        let mut lines = Lines::new(writer, concat!("punctual ", env!("CARGO_PKG_VERSION")));
        lines.name_group(CPUS, "CPUs");
        lines.name_group(THREADS, "watched threads");
        Self {
            lines,
            origin_ns,
            now_ns: 0,
            cpus: BTreeMap::new(),
            threads: HashMap::new(),
            watched: None,
            with_children: false,
            clocks: Clocks::read(),
            numbers: Numbers::default(),
            losses: Vec::new(),
        }
    }

    /// Only these threads have tracks. The kernel's filter also passes others: those created later, by whomever.
    #[must_use]
    pub fn only(mut self, target: &Target) -> Self {
        self.watched = Some(target.tids.iter().copied().collect());
        self.with_children = target.with_children;
        self
    }

    /// Adds events. [`ChromeTrace::finish`] says if they could not be written.
    pub fn take(&mut self, batch: &Batch) {
        self.losses.extend(&batch.losses);
        self.losses.sort_unstable();
        self.numbers.learn(batch);
        let origin_ns = self.origin_ns;
        for event in batch.events.iter().filter(|event| event.time_ns >= origin_ns) {
            self.lose(event.time_ns);
            self.event(event);
        }
    }

    /// Ends what is open, and gives the writer back.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.lose(u64::MAX);
        let at = self.advance(0);
        self.cpus.values_mut().for_each(|cpu| cpu.end_all(&mut self.lines, at));
        self.threads.values_mut().for_each(|thread| thread.cut(&mut self.lines, at));
        self.lines.finish()
    }

    /// The losses before this time.
    fn lose(&mut self, until_ns: u64) {
        let before = self.losses.partition_point(|(time_ns, ..)| *time_ns < until_ns);
        for (time_ns, cpu, number) in self.losses.drain(..before).collect::<Vec<_>>() {
            let at = self.advance(time_ns);
            // A call, a switch or a wake-up of any thread may be among them.
            self.threads.values_mut().for_each(|thread| thread.forget(&mut self.lines, at));
            let (cpu, lines) = self.cpu(cpu);
            cpu.end_all(lines, at);
            lines.instant(cpu.track, at, &format!("{number} events lost"));
        }
    }

    /// Time does not run back, even if a CPU's events came late. Nor does it stand still. Perfetto reads the end of a slice
    /// before a begin of the same time. So it never ends an empty slice.
    fn advance(&mut self, time_ns: u64) -> u64 {
        self.now_ns = (self.now_ns + 1).max(time_ns.saturating_sub(self.origin_ns));
        self.now_ns
    }

    /// The CPU; its track begins with its first event.
    fn cpu(&mut self, number: u32) -> (&mut Cpu, &mut Lines<W>) {
        let lines = &mut self.lines;
        let cpu = self.cpus.entry(number).or_insert_with(|| {
            let track = Track { pid: CPUS, tid: CPUS + 1 + number % (THREADS - CPUS - 1) };
            lines.name_track(track, &format!("CPU {number}"));
            lines.place_track(track, number);
            Cpu::new(track)
        });
        (cpu, lines)
    }

    fn event(&mut self, event: &Event) {
        let at = self.advance(event.time_ns);
        if let Some(thread) = self.threads.get_mut(&event.tid) {
            thread.run(&mut self.lines, at);
        }
        match event.kind {
            Kind::Switch { .. } => self.switch(event, at),
            Kind::Waking { tid, .. } => self.wake(event, at, tid),
            Kind::Enter { .. } | Kind::Leave { .. } | Kind::TimerStart { .. } | Kind::Exit => self.call(event, at),
            Kind::Migrate { tid, to } => self.mark(tid, at, &format!("moved to CPU {to}")),
            Kind::Inherit { tid, old, new } => self.mark(tid, at, &format!("priority {old} to {new} by inheritance")),
            Kind::Fault => self.mark(event.tid, at, "page fault"),
            Kind::Signal { number } => self.mark(event.tid, at, &format!("signal {number}")),
            Kind::Fork { parent, child } => {
                self.mark(parent, at, &format!("creates thread {child}"));
                if let Some(watched) = self.watched.as_mut().filter(|all| self.with_children && all.contains(&parent)) {
                    watched.insert(child);
                }
            }
            _ => self.occupy(event, at),
        }
    }

    /// What occupies the CPU in a thread, or instead of one.
    fn occupy(&mut self, event: &Event, at: u64) {
        let name = self.numbers.name(&event.kind);
        let ahead_ns = match event.kind {
            Kind::TimerExpire { now_ns, .. } => self.clocks.ahead_of(now_ns, event.time_ns),
            _ => 0,
        };
        let (cpu, lines) = self.cpu(event.cpu);
        match event.kind {
            Kind::Idle { state: Some(_) } => {
                cpu.end(lines, at, Running::IdleState);
                cpu.begin(lines, at, Running::IdleState, &name);
            }
            Kind::Idle { state: None } => cpu.end(lines, at, Running::IdleState),
            Kind::Interrupt { .. } => cpu.begin(lines, at, Running::Interrupt, &name),
            Kind::InterruptDone => cpu.end(lines, at, Running::Interrupt),
            Kind::Softirq { .. } => cpu.begin(lines, at, Running::Softirq, &name),
            Kind::SoftirqDone => cpu.end(lines, at, Running::Softirq),
            Kind::TimerExpire { timer, .. } => {
                cpu.begin(lines, at, Running::Timer(timer), &name);
                cpu.timer_clock_ahead_ns = ahead_ns;
            }
            Kind::TimerDone { timer } => cpu.end(lines, at, Running::Timer(timer)),
            Kind::Nmi { took_ns } => cpu.nmi(lines, at, u64::try_from(took_ns).unwrap_or(0)),
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, at: u64) {
        let Kind::Switch { prev, prev_state, next } = event.kind else { return };
        let (cpu, lines) = self.cpu(event.cpu);
        cpu.end_all(lines, at);
        let name = if next.tid == 0 { "idle".to_owned() } else { format!("{} {}", next.name, next.tid) };
        cpu.begin(lines, at, Running::Thread, &name);
        if let Some(thread) = self.threads.get_mut(&prev.tid) {
            thread.name(&mut self.lines, prev.name);
            // TASK_REPORT_MAX (0x100) marks one that was preempted, whatever it was about to do.
            thread.stop(at, prev_state & 0xff == 0);
        }
        if let Some(thread) = self.threads.get_mut(&next.tid) {
            thread.name(&mut self.lines, next.name);
            thread.run(&mut self.lines, at);
        }
    }

    fn wake(&mut self, event: &Event, at: u64, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.sleeps()) else { return };
        let waker = self.cpus.get(&event.cpu);
        // The deadline is a time of the timer's clock.
        let origin = self.origin_ns.cast_signed();
        let timer = waker.and_then(|cpu| Some((cpu.timer()?, origin.saturating_add(cpu.timer_clock_ahead_ns))));
        let from = waker.filter(|cpu| cpu.is_known()).map(|cpu| cpu.track);
        thread.wake(&mut self.lines, at, timer, |lines| from.map(|track| lines.arrow_from(track, at)));
    }

    /// What the thread does itself.
    fn call(&mut self, event: &Event, at: u64) {
        let Ok(tid) = u32::try_from(event.tid) else { return };
        let lines = &mut self.lines;
        if let Kind::Enter { number, .. } = event.kind {
            if self.watched.as_ref().is_some_and(|watched| !watched.contains(&event.tid)) {
                return;
            }
            let track = Track { pid: THREADS, tid };
            let thread = self.threads.entry(event.tid).or_insert_with(|| Thread::new(track));
            thread.enter(lines, at, &syscall_name::name_of(number));
            return;
        }
        let Some(thread) = self.threads.get_mut(&event.tid) else { return };
        match event.kind {
            Kind::Leave { returned, .. } => thread.leave(lines, at, returned),
            Kind::TimerStart { timer, soft_ns, .. } => thread.start_timer(timer, soft_ns),
            Kind::Exit => {
                thread.cut(lines, at);
                lines.instant(thread.track, at, "exit");
                self.threads.remove(&event.tid);
                self.watched.as_mut().map(|watched| watched.remove(&event.tid));
            }
            _ => {}
        }
    }

    /// Something without length, in a watched thread.
    fn mark(&mut self, tid: i32, at: u64, text: &str) {
        if let Some(thread) = self.threads.get(&tid) {
            self.lines.instant(thread.track, at, text);
        }
    }
}
