//! The two threads of a switch.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use punctual::cpufreq::{Cpufreq, GovernorGuard, Work};
use punctual::{Conditions, CpuSet};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};

use super::plan::EACH;
use super::{Figures, Ledger, Plan, Switch, analysis};
use crate::governor::frame::{PATIENCE, Verdict, Vigil};
use crate::stage::{Progress, Stage};

/// One loop: short beside any change of frequency, long beside a reading of the clock.
const LOOP: Duration = Duration::from_micros(50);
/// How long loops run before the governor is switched...
const BEFORE: Duration = Duration::from_millis(10);
/// ...and after it. Together with [`BEFORE`] well below what a real-time thread may hold its CPU.
const AFTER: Duration = Duration::from_millis(40);
/// Room for the loops of one switch, however fast they get.
const ROOM: usize = 4096;

/// Does everything; the calling thread is the one that loops.
pub(super) fn perform(plan: &Plan, ledger: &Ledger, stage: &Stage) {
    let allowed = Conditions::inspect().cpus.unwrap_or_default();
    let cpu = plan.thread.its_cpu();
    let other = allowed.iter().find(|allowed| Some(*allowed) != cpu);
    let fail = |why: String, remedy: String| ledger.open().figures.failure = Some((why, remedy));
    let (Some(cpu), Some(other)) = (cpu, other) else {
        return fail(
            "two CPUs are needed: one loops while the other switches".into(),
            "allow this process a second CPU (taskset, cpuset, the virtual machine's settings)".into(),
        );
    };
    let mut guard = match Cpufreq::system().guard(&[cpu], PATIENCE) {
        Ok(guard) => guard,
        Err(error) => return fail(error.to_string(), error.remedy()),
    };
    // Each is set once with all checks, so that only the write is left to be timed.
    for governor in &plan.governors {
        if let Err(error) = guard.set_governor(governor) {
            return fail(error.to_string(), error.remedy());
        }
    }
    loop_and_switch(plan, ledger, stage, (cpu, other), &guard);
    ledger.put_back(Some(guard));
}

/// What the two threads tell each other.
#[derive(Default)]
struct Signals {
    /// When the looping thread began, in ns; 0: it has not; -1: there is nothing more to do.
    began: AtomicI64,
    /// When the write began and ended.
    write_began: AtomicI64,
    write_ended: AtomicI64,
    failed: AtomicBool,
}

/// To the looping thread and back.
const OVER: i64 = -1;

fn loop_and_switch(
    plan: &Plan,
    ledger: &Ledger,
    stage: &Stage,
    (cpu, other): (usize, usize),
    governors: &GovernorGuard,
) {
    let signals = Signals::default();
    let (turn, turns) = sync_channel::<usize>(0);
    std::thread::scope(|scope| {
        let signals = &signals;
        scope.spawn(move || {
            let conditions = Conditions { cpus: Some(CpuSet::of([other])), one_way: true, ..Conditions::default() };
            let _on_its_own_cpu = conditions.apply();
            while let Ok(to) = turns.recv() {
                switch(&plan.governors[to], signals, governors);
            }
        });
        ledger.open().figures.from_cpu = Some(other);
        ledger
            .under_conditions(&plan.thread, Some(cpu), |vigil| turns_of(plan, vigil, (ledger, stage), signals, &turn));
        drop(turn);
    });
}

/// The looping thread's part.
fn turns_of(
    plan: &Plan,
    vigil: &mut Vigil<'_, Figures>,
    (ledger, stage): (&Ledger, &Stage),
    signals: &Signals,
    turn: &SyncSender<usize>,
) {
    // The governor set last is the faster one, so that a loop is as long as it says at full speed.
    Work::warm_up(AFTER);
    let work = Work::calibrate(LOOP);
    ledger.open().figures.work_ns = LOOP.as_nanos() as i64;
    let mut loops: Vec<(i64, i64)> = Vec::with_capacity(ROOM);
    let all = plan.rounds * plan.switches * 2;
    for n in 0..all {
        // The policy is under the second governor at first: the first switch goes to the first.
        let (to, round) = ((n % 2) as usize, n / (plan.switches * 2));
        let doing = format!("{}, {} of {all}", plan.subject(to), n + 1);
        let done = f64::from(n) / f64::from(all);
        if !stage.pause(Progress { doing, done, left: EACH.saturating_mul(all - n) }) {
            return;
        }
        std::thread::sleep(EACH.saturating_sub(BEFORE + AFTER));
        let look = vigil.begin();
        signals.began.store(0, Ordering::Release);
        signals.write_ended.store(0, Ordering::Release);
        if turn.send(to).is_err() {
            return;
        }
        loops.clear();
        signals.began.store(now_ns(Clock::Monotonic), Ordering::Release);
        loop {
            loops.push(work.timed());
            let ended = signals.write_ended.load(Ordering::Acquire);
            let enough = ended > 0 && loops.last().is_some_and(|(end, _)| end - ended > AFTER.as_nanos() as i64);
            if enough || loops.len() == ROOM || linux::stop::requested() || signals.failed.load(Ordering::Acquire) {
                break;
            }
        }
        let (began, ended) = (signals.write_began.load(Ordering::Acquire), signals.write_ended.load(Ordering::Acquire));
        if linux::stop::requested() || signals.failed.load(Ordering::Acquire) || ended == 0 {
            if signals.failed.load(Ordering::Acquire) {
                let why = "the governor could not be written again, although it could before".to_owned();
                ledger.open().figures.failure = Some((why, "see whether the CPU went offline meanwhile".into()));
            }
            signals.began.store(OVER, Ordering::Release);
            return;
        }
        // No single loop is as long as a pause.
        match vigil.end(&look, ((BEFORE + AFTER).as_nanos() as u64, 0), None) {
            Verdict::Counts => {}
            Verdict::LeftOut => continue,
            Verdict::Over => {
                signals.began.store(OVER, Ordering::Release);
                return;
            }
        }
        let seen = analysis::analyse(&loops, began);
        ledger.open().figures.switches.push(Switch { to, round, write_ns: ended - began, seen });
    }
}

/// The switching thread's part: waits until loops have run for a while, and writes.
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
