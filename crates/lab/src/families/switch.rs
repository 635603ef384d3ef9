//! `switch`: the time to switch governors, for the write itself and until loops run at the new speed.
//!
//! One thread loops on one CPU and stamps every loop. Another thread, on another CPU, writes the governor at a known
//! time. Each turn switches back and forth repeatedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Conditions;
use punctual::cpufreq::{Cpufreq, GovernorGuard, Work};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::switch;
use punctual_record::statistics::lower_median;
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesTally, Typed, Usage};

use crate::frame::{
    self, Bench, CellId, Error, Failure, Family, Gathered, Input, Layout, Ledger, Measured, Meter, PlanError, Report,
    Scene, Schedule, Session, Shared, Unavailable, at_least_one, no_thread_remedy,
};
use crate::speed::{CLOSE, Looping, PATIENCE, Thread, arrival, give_back};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::SWITCH;

/// Runs the plan and enters its measurements in the session. False: governors were switched, and the speed did not
/// follow them.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<bool, Error> {
    let done = frame::run(plan, session)?;
    let switches: Vec<&Switch> = done.extras.iter().flat_map(|extra| &extra.switches).collect();
    Ok(switches.is_empty() || [0, 1].into_iter().any(|to| follows(&switches_to(&switches, to))))
}

/// The switches to one governor.
fn switches_to<'a>(switches: &[&'a Switch], to: usize) -> Vec<&'a Switch> {
    switches.iter().copied().filter(|switch| switch.to == to).collect()
}

/// Whether most switches changed the speed. A machine that disturbs the loops shows some changes, in both directions.
fn follows(switches: &[&Switch]) -> bool {
    2 * followed(switches).len() > switches.len()
}

/// One cell for both directions, which only take turns with each other.
impl Family for Plan {
    type Extra = Extra;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.looping.request, [0])
    }

    fn identity(&self, _: usize) -> CellId {
        let experiment = Experiment::Switch(Typed::asked(switch::Parameters {}));
        CellId { subject: direction(&self.governors, 1), about: About::default(), experiment }
    }

    fn schedule(&self) -> Schedule {
        self.looping.schedule(2 * self.switches, EACH, 1)
    }

    fn prepare(&mut self, _: &mut Session<'_>) -> Result<(), Error> {
        self.take_over();
        Ok(())
    }

    fn forbidden(&self, _: usize) -> Option<Unavailable> {
        self.failure.clone()
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        let switcher = self.switcher()?;
        Ok(Box::new(move |scene| Ok(Box::new(SwitchBench::open(self, switcher, scene)))))
    }

    fn report(&self, _: usize, measured: &Measured<'_, Extra>) -> Report {
        let mut report = Report::default();
        for to in [1, 0] {
            self.report_direction(to, measured, &mut report);
        }
        report
    }
}

impl Plan {
    /// The two series of one direction.
    fn report_direction(&self, to: usize, measured: &Measured<'_, Extra>, report: &mut Report) {
        let switches = switches_to(&measured.extra.switches.iter().collect::<Vec<_>>(), to);
        if switches.is_empty() {
            return;
        }
        let levels = |pick: fn(&Seen) -> Option<i64>| {
            lower_median(&switches.iter().filter_map(|switch| pick(&switch.seen)).collect::<Vec<_>>())
        };
        let number = |cpu: Option<usize>| cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let metrics = switch::Metrics {
            cpu: number(self.looping.cpu),
            switched_from_cpu: number(self.other_cpu),
            loop_ns: Some(LOOP.as_nanos() as i64),
            before_ns: levels(|seen| seen.before_ns),
            after_ns: levels(|seen| seen.after_ns),
            not_seen: Some((switches.len() - followed(&switches).len()) as u64),
        };
        let series = |tally: &SeriesTally, quantity| {
            let experiment = Experiment::Switch(Typed { parameters: switch::Parameters {}, metrics: metrics.clone() });
            Series { subject: direction(&self.governors, to), ..measured.series(tally, quantity, experiment) }
        };
        let writes: Vec<_> = switches.iter().map(|switch| (switch.round, switch.write_ns)).collect();
        report.series.push(series(&tally(&writes), Quantity::CallCost));
        let followed = followed(&switches);
        if follows(&switches) {
            report.series.push(series(&tally(&followed), Quantity::Settling));
        } else {
            let why = format!(
                "the speed changed after {} of {} switches: too few to measure the delay",
                followed.len(),
                switches.len()
            );
            let remedy = "measure on a CPU whose clock really changes; two governors that keep the same speed show nothing either";
            report.missing.push((direction(&self.governors, to), Unavailable::but(why, remedy)));
        }
    }
}

/// The switches that changed the speed in the direction of most, with their round and time.
fn followed(switches: &[&Switch]) -> Vec<(u32, i64)> {
    let direction = |switch: &Switch| Some((switch.seen.after_ns? - switch.seen.before_ns?).signum());
    let settled: Vec<(&Switch, i64)> =
        switches.iter().filter_map(|switch| Some((*switch, switch.seen.settled_ns?))).collect();
    let sum: i64 = settled.iter().filter_map(|(switch, _)| direction(switch)).sum();
    let same = |(switch, _): &&(&Switch, i64)| direction(switch) == Some(sum.signum());
    settled.iter().filter(same).map(|(switch, ns)| (switch.round, *ns)).collect()
}

/// One batch per round, of samples in the order of rounds.
fn tally(samples: &[(u32, i64)]) -> SeriesTally {
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for of_round in samples.chunk_by(|(round, _), (next, _)| round == next) {
        tally.add_samples((of_round[0].0, 0), &mut recorder, of_round.iter().map(|(_, ns)| *ns));
    }
    tally
}

/// One loop: short compared with a change of frequency, long compared with a reading of the clock.
const LOOP: Duration = Duration::from_micros(50);
/// Duration of one switch: loops before and after it, and a rest.
const EACH: Duration = Duration::from_millis(80);

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The two governors. None: `powersave` and `performance`.
    pub governors: Option<[String; 2]>,
    /// Number of switches each way per round.
    pub switches: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// The thread that loops.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    governors: [String; 2],
    switches: u32,
    looping: Looping,
    /// The switching thread's CPU, once it is chosen.
    other_cpu: Option<usize>,
    guard: Shared<Option<GovernorGuard>>,
    /// Why it cannot be measured.
    failure: Option<Unavailable>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { governors, switches, rounds, thread } = request;
        at_least_one(Input::Switches, switches)?;
        at_least_one(Input::Rounds, rounds)?;
        let whole = EACH.saturating_mul(2).saturating_mul(switches).saturating_mul(rounds);
        Ok(Self {
            governors: governors.unwrap_or_else(usual),
            switches,
            looping: thread.looping(2 * switches, rounds, whole)?,
            other_cpu: None,
            guard: Shared::default(),
            failure: None,
        })
    }
}

fn usual() -> [String; 2] {
    ["powersave".into(), "performance".into()]
}

/// A direction in words.
fn direction(governors: &[String; 2], to: usize) -> String {
    format!("{} to {}", governors[1 - to], governors[to])
}

/// The subjects of a run with these governors: both directions.
#[must_use]
pub fn subjects(governors: Option<[String; 2]>) -> [String; 2] {
    let governors = governors.unwrap_or_else(usual);
    [direction(&governors, 1), direction(&governors, 0)]
}

/// Duration of the loops after the switch. With [`BEFORE`] it is well below the limit for a real-time thread on its
/// CPU.
const AFTER: Duration = Duration::from_millis(40);
/// Capacity for the loops of one switch at the highest speed.
const ROOM: usize = 4096;

/// The looping thread.
struct SwitchBench<'a> {
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
    fn open(plan: &'a Plan, switcher: Switcher, scene: &Scene<'a>) -> Self {
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
        format!("{} and back", direction(&self.plan.governors, 0))
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
const BEFORE: Duration = Duration::from_millis(10);

/// The words shared by the two threads.
#[derive(Debug, Default)]
struct Signals {
    /// The beginning of the loops, in ns. 0: not yet; -1: the end.
    began: AtomicI64,
    /// The beginning and the end of the write.
    write_began: AtomicI64,
    write_ended: AtomicI64,
    failed: AtomicBool,
}

/// Tells the switching thread that the turn is over before it began.
const OVER: i64 = -1;

/// The switching thread.
#[derive(Debug)]
pub(crate) struct Switcher {
    signals: Arc<Signals>,
    turn: Option<SyncSender<usize>>,
    thread: Option<JoinHandle<()>>,
    guard: Option<Arc<GovernorGuard>>,
}

impl Plan {
    /// Chooses a second CPU, and sets each governor once with all checks. Only the write remains to be timed.
    fn take_over(&mut self) {
        let allowed = Conditions::inspect().get_cpus().unwrap_or_default();
        self.other_cpu = allowed.iter().find(|allowed| Some(*allowed) != self.looping.cpu);
        let (Some(cpu), Some(_)) = (self.looping.cpu, self.other_cpu) else {
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
    fn switcher(&self) -> Result<Switcher, Unavailable> {
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
    fn order(&self, to: usize) -> bool {
        self.signals.began.store(0, Ordering::Release);
        self.signals.write_ended.store(0, Ordering::Release);
        self.turn.as_ref().is_some_and(|turn| turn.send(to).is_ok())
    }

    /// Tells the switching thread that its turn is over.
    fn call_off(&self) {
        self.signals.began.store(OVER, Ordering::Release);
    }

    /// Ends the thread. Returns the right to set governors, for the caller to release.
    fn end(&mut self) -> Option<Arc<GovernorGuard>> {
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
struct Seen {
    /// Duration of a loop before the switch.
    before_ns: Option<i64>,
    /// Duration of a loop long after the switch.
    after_ns: Option<i64>,
    /// Time from the beginning of the write to the beginning of the first loop at the new speed. `None`: the speeds
    /// do not differ, or the new one was not reached.
    settled_ns: Option<i64>,
}

/// One switch, as observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switch {
    /// Index of the new governor.
    to: usize,
    round: u32,
    write_ns: i64,
    seen: Seen,
}

/// All switches that count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    switches: Vec<Switch>,
    rounds: u32,
}

/// `loops`: end and duration of each loop. `written_ns`: the beginning of the write.
fn analyse(loops: &[(i64, i64)], written_ns: i64) -> Seen {
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
    use crate::frame::tests::made_up_report;
    use crate::speed::Thread;

    #[test]
    fn each_direction_has_its_series_or_says_why_not() {
        let thread = Thread { cpu: Some(0), ..Thread::default() };
        let plan = Plan::new(Request { governors: None, switches: 2, rounds: 1, thread }).unwrap();
        let plan = Plan { other_cpu: Some(1), ..plan };
        let seen = |settled_ns| Seen { before_ns: Some(150), after_ns: Some(50), settled_ns };
        let switch = |to, settled_ns| Switch { to, round: 0, write_ns: 70, seen: seen(settled_ns) };
        let switches = [switch(0, None), switch(1, Some(450)), switch(0, None), switch(1, None), switch(1, Some(460))];
        let report = made_up_report(&plan, 0, &[70; 5], &[Extra { switches: switches.to_vec(), rounds: 1 }]);
        let shown: Vec<_> = report
            .series
            .iter()
            .map(|series| (series.subject.as_str(), series.quantity, series.summary.count))
            .collect();
        assert_eq!(
            shown,
            [
                ("powersave to performance", Quantity::CallCost, 3),
                ("powersave to performance", Quantity::Settling, 2),
                ("performance to powersave", Quantity::CallCost, 2),
            ]
        );
        assert_eq!(report.missing.len(), 1);
        assert_eq!(report.missing[0].0, "performance to powersave");
        let metrics = &report.series[0].experiment.switch().unwrap().metrics;
        assert_eq!((metrics.cpu, metrics.switched_from_cpu, metrics.not_seen), (Some(0), Some(1), Some(1)));
        assert_eq!((metrics.loop_ns, metrics.before_ns, metrics.after_ns), (Some(50_000), Some(150), Some(50)));
    }
    #[test]
    fn changes_by_chance_are_not_the_governors() {
        let thread = Thread { cpu: Some(0), ..Thread::default() };
        let plan = Plan::new(Request { governors: None, switches: 6, rounds: 1, thread }).unwrap();
        // Loops that differ after every switch, as often faster as slower; and after a third of them, always faster.
        let both = |n: i64| Some(if n % 2 == 0 { 50_i64 } else { 250 });
        let rare = |n: i64| Some(if n % 3 == 0 { 50_i64 } else { 150 });
        for after in [&both as &dyn Fn(i64) -> Option<i64>, &rare] {
            let seen = |n: i64| {
                let settled_ns = after(n).filter(|ns| *ns != 150).map(|_| 300);
                Seen { before_ns: Some(150), after_ns: after(n), settled_ns }
            };
            let switches = (0..6).map(|n| Switch { to: 1, round: 0, write_ns: 70, seen: seen(n) }).collect();
            let report = made_up_report(&plan, 0, &[70; 6], &[Extra { switches, rounds: 1 }]);
            assert!(report.series.iter().all(|series| series.quantity == Quantity::CallCost));
            assert_eq!(report.missing.len(), 1);
        }
    }

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
