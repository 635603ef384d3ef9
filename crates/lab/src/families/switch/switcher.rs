//! The switching thread, on another CPU than the looping one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Conditions;
use punctual::cpufreq::{Cpufreq, GovernorGuard};
use punctual_linux::clock::{Clock, now_ns};

use super::plan::Plan;
use crate::frame::Unavailable;
use crate::frame::error::no_thread_remedy;
use crate::speed::governor::PATIENCE;

/// Duration of the loops before the governor is switched.
pub(super) const BEFORE: Duration = Duration::from_millis(10);

/// The words shared by the two threads.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// The beginning of the loops, in ns. 0: not yet; -1: the end.
    pub(super) began: AtomicI64,
    /// The beginning and the end of the write.
    pub(super) write_began: AtomicI64,
    pub(super) write_ended: AtomicI64,
    pub(super) failed: AtomicBool,
}

/// Tells the switching thread that the turn is over before it began.
const OVER: i64 = -1;

/// The switching thread.
#[derive(Debug)]
pub(crate) struct Switcher {
    pub(super) signals: Arc<Signals>,
    turn: Option<SyncSender<usize>>,
    thread: Option<JoinHandle<()>>,
    guard: Option<Arc<GovernorGuard>>,
}

impl Plan {
    /// Chooses a second CPU, and sets each governor once with all checks. Only the write remains to be timed.
    pub(super) fn take_over(&mut self) {
        let allowed = Conditions::inspect().get_cpus().unwrap_or_default();
        self.other_cpu = allowed.iter().find(|allowed| Some(*allowed) != self.cpu);
        let (Some(cpu), Some(_)) = (self.cpu, self.other_cpu) else {
            self.failure = Some(Unavailable::but(
                "two CPUs are needed: one loops while the other switches",
                "allow this process a second CPU (taskset, cpuset, the virtual machine's settings)",
            ));
            return;
        };
        let set = || {
            let mut guard = Cpufreq::system().guard(&[cpu], PATIENCE)?;
            self.governors.iter().try_for_each(|governor| guard.set_governor(governor)).map(|()| guard)
        };
        match set() {
            Ok(guard) => *self.guard.open() = Some(guard),
            Err(error) => self.failure = Some(Unavailable::from(&error)),
        }
    }

    /// Starts the switching thread.
    pub(super) fn switcher(&self) -> Result<Switcher, Unavailable> {
        let missing = || self.failure.clone().unwrap_or_else(|| Unavailable::because("no governor can be set"));
        let (guard, other) = self.guard.take().map(Arc::new).zip(self.other_cpu).ok_or_else(missing)?;
        let signals = Arc::new(Signals::default());
        let (turn, turns) = sync_channel::<usize>(0);
        let (its, governors, its_guard) = (Arc::clone(&signals), self.governors.clone(), Arc::clone(&guard));
        let work = move || {
            let _on_its_own_cpu = Conditions::new().cpu(other).allow_irreversible().apply();
            while let Ok(to) = turns.recv() {
                switch(&governors[to], &its, &its_guard);
            }
        };
        let thread = std::thread::Builder::new().name("switch".into()).spawn(work);
        let thread = thread.map_err(|error| Unavailable::but(error.to_string(), no_thread_remedy()))?;
        Ok(Switcher { signals, turn: Some(turn), thread: Some(thread), guard: Some(guard) })
    }
}

impl Switcher {
    /// Requests a switch to this governor, [`BEFORE`] after the loops began. False: the thread has ended.
    pub(super) fn order(&self, to: usize) -> bool {
        self.signals.began.store(0, Ordering::Release);
        self.signals.write_ended.store(0, Ordering::Release);
        self.turn.as_ref().is_some_and(|turn| turn.send(to).is_ok())
    }

    /// Ends its work.
    pub(super) fn call_off(&self) {
        self.signals.began.store(OVER, Ordering::Release);
    }

    /// Ends the thread. Returns the right to set governors, for the caller to release.
    pub(super) fn end(&mut self) -> Option<Arc<GovernorGuard>> {
        self.call_off();
        drop(self.turn.take());
        drop(self.thread.take().map(JoinHandle::join));
        self.guard.take()
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Waits until loops have run for a while, and writes.
fn switch(governor: &str, signals: &Signals, governors: &GovernorGuard) {
    let began = loop {
        match signals.began.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            OVER => return,
            began => break began,
        }
    };
    let wait = began + BEFORE.as_nanos() as i64 - now_ns(Clock::Monotonic);
    std::thread::sleep(Duration::from_nanos(wait.max(0) as u64));
    signals.write_began.store(now_ns(Clock::Monotonic), Ordering::Release);
    if governors.rewrite_governor(governor).is_err() {
        signals.failed.store(true, Ordering::Release);
    }
    signals.write_ended.store(now_ns(Clock::Monotonic), Ordering::Release);
}
