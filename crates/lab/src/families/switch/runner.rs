//! The looping thread. Another thread switches meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::cpufreq::Work;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Recorder, Usage};

use super::analysis::{Extra, Switch, analyse};
use super::plan::{EACH, LOOP, Plan};
use super::switcher::{BEFORE, Switcher};
use crate::frame::figures::Meter;
use crate::frame::{Bench, Failure, Ledger, Scene, Shared, Unavailable};
use crate::speed::governor::give_back;

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
