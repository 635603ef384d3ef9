//! The looping thread, the thread on another CPU that switches the governor meanwhile, and what the stamped loops show of
//! each switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Conditions;
use punctual::cpufreq::{Cpufreq, GovernorGuard, Work};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::statistics::lower_median;
use punctual_record::{Recorder, Usage};

use super::plan::{EACH, LOOP, Plan};
use crate::frame::error::no_thread_remedy;
use crate::frame::figures::Meter;
use crate::frame::{Bench, Failure, Ledger, Scene, Shared, Unavailable};
use crate::speed::{CLOSE, PATIENCE, arrival, give_back};

/// Duration of the loops after the switch. With [`BEFORE`] it is well below the limit for a real-time thread on its
/// CPU.
const AFTER: Duration = Duration::from_millis(40);
/// Capacity for the loops of one switch at the highest speed.
const ROOM: usize = 4096;

/// The looping thread.
pub(super) struct SwitchBench<'a> {
    plan: &'a Plan,
    switcher: Switcher,
    ledger: Shared<Ledger>,
    /// The work of a loop, after its calibration.
    work: Option<Work>,
    loops: Vec<(i64, i64)>,
    /// The switches of the last batch, until it counts.
    last: Vec<Switch>,
}

impl<'a> SwitchBench<'a> {
    pub(super) fn open(plan: &'a Plan, switcher: Switcher, scene: &Scene<'a>) -> Self {
        let loops = Vec::with_capacity(ROOM);
        Self { plan, switcher, ledger: scene.ledger.clone(), work: None, loops, last: Vec::new() }
    }

    /// The work of a loop. The governor set last is the faster one, so a loop has its nominal length at full speed.
    fn work(&mut self) -> Work {
        *self.work.get_or_insert_with(|| {
            Work::warm_up(AFTER);
            Work::calibrate(LOOP)
        })
    }

    /// One switch: the beginning and the duration of the write.
    fn switch(&mut self, to: usize, work: Work) -> Result<(i64, i64), Failure> {
        std::thread::sleep(EACH.saturating_sub(BEFORE + AFTER));
        if !self.switcher.order(to) {
            return Err(Unavailable::because("the switching thread ended").into());
        }
        let signals = Arc::clone(&self.switcher.signals);
        self.loops.clear();
        signals.began.store(now_ns(Clock::Monotonic), Ordering::Release);
        loop {
            self.loops.push(work.timed());
            let ended = signals.write_ended.load(Ordering::Acquire);
            let enough = ended > 0 && self.loops.last().is_some_and(|(end, _)| end - ended > AFTER.as_nanos() as i64);
            let failed = signals.failed.load(Ordering::Acquire);
            if enough || self.loops.len() == ROOM || linux::stop::requested() || failed {
                break;
            }
        }
        let (began, ended) = (signals.write_began.load(Ordering::Acquire), signals.write_ended.load(Ordering::Acquire));
        if signals.failed.load(Ordering::Acquire) {
            let why = "the governor could not be written again, although it could before";
            return Err(Unavailable::but(why, "see whether the CPU went offline meanwhile").into());
        }
        if linux::stop::requested() || ended == 0 {
            self.switcher.call_off();
            return Err(Failure::Stopped);
        }
        Ok((began, ended - began))
    }
}

impl Bench for SwitchBench<'_> {
    type Extra = Extra;

    fn doing(&self, _: usize) -> String {
        format!("{} and back", self.plan.subject(0))
    }

    fn batch(&mut self, _: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let work = self.work();
        self.last.clear();
        let meter = Meter::start();
        for n in 0..operations {
            // The policy starts under the second governor, so the first switch is to the first one.
            let to = (n % 2) as usize;
            let (began, write_ns) = self.switch(to, work)?;
            into.record(write_ns);
            let seen = analyse(&self.loops, began);
            self.last.push(Switch { to, round: 0, write_ns, seen });
        }
        Ok(meter.stop())
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Extra) {
        let round = extra.rounds;
        extra.rounds += 1;
        extra.switches.extend(self.last.drain(..).map(|switch| Switch { round, ..switch }));
    }

    fn end(&mut self) {
        let guard = self.switcher.end();
        give_back(guard.and_then(Arc::into_inner), &self.ledger);
    }
}

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
        let (its_signals, governors, its_guard) = (Arc::clone(&signals), self.governors.clone(), Arc::clone(&guard));
        let work = move || {
            let _on_its_own_cpu = Conditions::new().cpu(other).allow_irreversible().apply().guard;
            while let Ok(to) = turns.recv() {
                switch(&governors[to], &its_signals, &its_guard);
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

    /// Tells the switching thread that its turn is over.
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

/// The observations of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Duration of a loop before the switch.
    pub(super) before_ns: Option<i64>,
    /// Duration of a loop long after the switch.
    pub(super) after_ns: Option<i64>,
    /// Time from the beginning of the write to the beginning of the first loop at the new speed. `None`: the speeds
    /// do not differ, or the new one was not reached.
    pub(super) settled_ns: Option<i64>,
}

/// One switch, as observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch {
    /// Index of the new governor.
    pub(super) to: usize,
    pub(super) round: u32,
    pub(super) write_ns: i64,
    pub(super) seen: Seen,
}

/// All switches that count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    pub(super) switches: Vec<Switch>,
    pub(super) rounds: u32,
}

/// `loops`: end and duration of each loop. `written_ns`: the beginning of the write.
pub(super) fn analyse(loops: &[(i64, i64)], written_ns: i64) -> Seen {
    let begins_after = |&&(end, duration): &&(i64, i64)| end - duration >= written_ns;
    let before: Vec<i64> = loops.iter().filter(|(end, _)| *end <= written_ns).map(|(_, duration)| *duration).collect();
    let after: Vec<(i64, i64)> = loops.iter().filter(begins_after).copied().collect();
    let durations: Vec<i64> = after.iter().map(|(_, duration)| *duration).collect();
    // The last half is settled if any part is: it begins tens of milliseconds after the write.
    let levels = (lower_median(&before), lower_median(&durations[durations.len() / 2..]));
    let (Some(old), Some(new)) = levels else {
        return Seen { before_ns: levels.0, after_ns: levels.1, settled_ns: None };
    };
    let differ = (old - new).abs() as f64 > 2.0 * CLOSE * old.min(new) as f64;
    let at = if differ { arrival(&durations, new, old < new) } else { None };
    let settled_ns = at.map(|index| after[index].0 - after[index].1 - written_ns);
    Seen { before_ns: Some(old), after_ns: Some(new), settled_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive loops of these durations, from time 0.
    fn loops(durations: &[i64]) -> Vec<(i64, i64)> {
        let mut end = 0;
        durations.iter().map(|&duration| (end += duration, (end, duration)).1).collect()
    }

    #[test]
    fn speeding_up_three_loops_after_the_write() {
        let mut durations = vec![150; 10];
        durations.extend([150, 150, 150]);
        durations.extend([50; 20]);
        let seen = analyse(&loops(&durations), 1500);
        assert_eq!(seen, Seen { before_ns: Some(150), after_ns: Some(50), settled_ns: Some(450) });
    }

    #[test]
    fn slowing_down_at_once() {
        let mut durations = vec![50; 10];
        durations.extend([150; 20]);
        assert_eq!(analyse(&loops(&durations), 500).settled_ns, Some(0));
    }

    #[test]
    fn a_speed_that_does_not_change_settles_nowhere() {
        let seen = analyse(&loops(&[50; 40]), 1000);
        assert_eq!((seen.before_ns, seen.after_ns, seen.settled_ns), (Some(50), Some(50), None));
        assert_eq!(analyse(&[], 0), Seen::default());
    }
}
