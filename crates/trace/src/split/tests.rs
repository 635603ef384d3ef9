use super::*;
use crate::clocks::Clocks;
use crate::event::{Event, Kind, Thread};
use crate::limits::Limits;
use crate::{Batch, Target};

const OWN: i32 = 10;
const DUE: u64 = 1_000_000;
const GROUP: i32 = 40;

/// A machine in which events happen, at microseconds after the deadline.
struct Machine {
    events: Vec<Event>,
    own_prio: i32,
    /// Its group, and that of thread [`GROUP`], has a quota.
    limited: bool,
    /// The kernel counted that it was used up.
    used_up: bool,
    /// Idle state 0 polls.
    polls: bool,
}

impl Machine {
    /// On CPU 0 the watched thread sleeps, and the CPU idles.
    fn asleep() -> Self {
        Self::asleep_beside(0, 120)
    }

    /// The same with another thread running.
    fn asleep_beside(other: i32, prio: i32) -> Self {
        let mut machine = Self { events: Vec::new(), own_prio: 120, limited: false, used_up: false, polls: false };
        machine.at(-100.0, OWN, Kind::Enter { number: 230, args: [0; 4] });
        machine.at(
            -99.0,
            OWN,
            Kind::TimerStart { timer: 7, function: 1, soft_ns: DUE as i64, hard_ns: DUE as i64 + 50_000 },
        );
        machine.switch(-98.0, (OWN, 120, 1), (other, prio));
        if other == 0 {
            machine.at(-97.0, 0, Kind::Idle { state: Some(1) });
        }
        machine
    }

    fn at(&mut self, us: f64, tid: i32, kind: Kind) -> &mut Self {
        let time_ns = (DUE as f64 + us * 1000.0) as u64;
        self.events.push(Event { time_ns, cpu: 0, tid, kind });
        self
    }

    fn switch(&mut self, us: f64, prev: (i32, i32, i64), next: (i32, i32)) -> &mut Self {
        let thread = |tid: i32, prio| Thread { tid, prio, name: Name::new(format!("t{tid}").as_bytes()) };
        let kind = Kind::Switch { prev: thread(prev.0, prev.1), prev_state: prev.2, next: thread(next.0, next.1) };
        self.at(us, prev.0, kind)
    }

    /// The timer's interrupt reads the clock at `now`, its function begins 1 us later and wakes after another.
    fn fires(&mut self, now: f64, tid: i32) -> &mut Self {
        let now_ns = DUE as i64 + (now * 1000.0) as i64;
        self.at(now + 1.0, tid, Kind::TimerExpire { timer: 7, function: 1, now_ns });
        self.at(now + 2.0, tid, Kind::Waking { tid: OWN, target_cpu: 0 });
        self.at(now + 3.0, tid, Kind::TimerDone { timer: 7 })
    }

    /// It runs and returns 3 us later.
    fn runs(&mut self, us: f64, prev: (i32, i32, i64)) -> &mut Self {
        self.switch(us, prev, (OWN, self.own_prio));
        self.at(us + 3.0, OWN, Kind::Leave { number: 230, returned: 0 })
    }

    fn split(&self) -> Result<Split, Uncut> {
        let target = Target { tids: vec![OWN], with_children: false };
        let mut follower = Follower::new(&target, Clocks::ahead_by([0; 4]), Some(1));
        let used_up: &[_] = if self.used_up { &[(0, u64::MAX)] } else { &[] };
        let limited: &[i32] = if self.limited { &[OWN, GROUP] } else { &[] };
        follower.know(Limits::made(limited, used_up), self.polls);
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.time_ns);
        let mut found = None;
        let mut cut_one = |machine: &Follower, call: Call| {
            assert!(call.blocked());
            let cut = split(&call, machine);
            if let Ok(cut) = &cut {
                assert_eq!(cut.late_ns(), call.returned_ns - cut.due_ns, "{cut:?}");
            }
            found = Some(cut);
        };
        follower.take(&Batch { events, losses: Vec::new() }, &mut cut_one);
        follower.suspend(&mut cut_one);
        found.expect("the call ended")
    }

    /// Time by this cause, in microseconds.
    fn us(&self, cause: Cause) -> u64 {
        let cut = self.split().unwrap();
        cut.pieces.iter().filter(|piece| piece.cause == cause).map(|piece| piece.ns).sum::<u64>() / 1000
    }

    fn who(&self, cause: Cause) -> Who {
        let cut = self.split().unwrap();
        cut.pieces.iter().find(|piece| piece.cause == cause).map_or(Who::Nobody, |piece| piece.who)
    }
}

mod kept;

#[test]
fn a_quiet_wake_up_has_slack_an_idle_state_and_a_switch() {
    let mut machine = Machine::asleep();
    machine.fires(74.0, 0).at(82.0, 0, Kind::Idle { state: None }).runs(90.0, (0, 120, 0));
    let cut = machine.split().unwrap();
    assert_eq!((cut.due_ns, cut.timed, cut.late_ns()), (DUE, true, 93_000));
    assert_eq!(machine.us(Cause::TimerSlack), 50);
    assert_eq!((machine.us(Cause::IdleState), machine.who(Cause::IdleState)), (24, Who::Idle(Some(1))));
    assert_eq!(machine.us(Cause::ContextSwitch), 13);
    assert_eq!(machine.us(Cause::ReturnPath), 3);
    assert_eq!(machine.us(Cause::OtherThread) + machine.us(Cause::Quota), 0);
}

#[test]
fn a_deadline_that_was_over_counts_from_the_call() {
    let mut machine = Machine::asleep();
    machine.events.clear();
    machine.at(900.0, OWN, Kind::Enter { number: 230, args: [0; 4] });
    let set = Kind::TimerStart { timer: 7, function: 1, soft_ns: DUE as i64, hard_ns: DUE as i64 };
    machine.at(901.0, OWN, set).switch(902.0, (OWN, 120, 1), (0, 120)).at(902.5, 0, Kind::Idle { state: Some(1) });
    machine.fires(905.0, 0).runs(915.0, (0, 120, 0));
    assert_eq!(machine.split().unwrap().late_ns(), 18_000);
    assert_eq!(machine.us(Cause::IdleState), 3);
}

#[test]
fn an_early_interrupt_shortens_the_slack() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.fires(20.0, 20).runs(30.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::TimerSlack), machine.us(Cause::InterruptsOff)), (20, 0));
}

#[test]
fn a_thread_that_runs_on_is_named() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.fires(60.0, 20).runs(2060.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::OtherThread), machine.who(Cause::OtherThread)), (1997, Who::Thread(20)));
    machine.own_prio = 59;
    let mut machine = Machine { own_prio: 59, ..Machine::asleep_beside(20, 120) };
    machine.fires(60.0, 20).switch(3000.0, (20, 120, 0), (20, 120));
    machine.runs(3060.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::NotPreempted), machine.who(Cause::NotPreempted)), (2997, Who::Thread(20)));
    assert_eq!(machine.us(Cause::OtherThread), 0);
}

#[test]
fn a_thread_of_higher_priority_is_no_failed_preemption() {
    let mut machine = Machine { own_prio: 59, ..Machine::asleep_beside(20, 9) };
    machine.fires(60.0, 20).runs(2060.0, (20, 9, 1));
    assert_eq!((machine.us(Cause::OtherThread), machine.us(Cause::NotPreempted)), (1997, 0));
}

#[test]
fn a_prompt_switch_is_nobody_s_fault() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.fires(60.0, 20).runs(75.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::OtherThread), machine.us(Cause::ContextSwitch)), (0, 12));
    // The way to the interrupt is short: interrupts were not off.
    assert_eq!((machine.us(Cause::InterruptsOff), machine.us(Cause::TimerPath)), (0, 13));
}

#[test]
fn interrupts_that_stay_off_are_told_with_the_thread() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.fires(350.0, 20).runs(360.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::InterruptsOff), machine.who(Cause::InterruptsOff)), (300, Who::Thread(20)));
}

#[test]
fn softirqs_and_interrupts_before_the_timer_are_named() {
    let mut machine = Machine::asleep_beside(20, 120);
    let name = Name::new(b"eth0");
    machine.at(40.0, 20, Kind::Interrupt { irq: 9, name }).at(90.0, 20, Kind::InterruptDone);
    machine.at(91.0, 20, Kind::Softirq { vector: 3 });
    machine.fires(291.0, 20).at(296.0, 20, Kind::SoftirqDone).runs(300.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::DeviceInterrupt), machine.who(Cause::DeviceInterrupt)), (40, Who::Interrupt(name)));
    assert_eq!((machine.us(Cause::Softirq), machine.who(Cause::Softirq)), (203, Who::Softirq(3)));
}

#[test]
fn timers_served_before_are_named_by_their_function() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.at(61.0, 20, Kind::TimerExpire { timer: 8, function: 99, now_ns: DUE as i64 + 60_000 });
    machine.at(561.0, 20, Kind::TimerDone { timer: 8 });
    machine.at(562.0, 20, Kind::TimerExpire { timer: 7, function: 1, now_ns: DUE as i64 + 60_000 });
    machine.at(563.0, 20, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.at(564.0, 20, Kind::TimerDone { timer: 7 }).runs(570.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::OtherTimers), machine.who(Cause::OtherTimers)), (500, Who::Function(99)));
}

#[test]
fn the_time_between_two_other_timers_is_theirs() {
    let mut machine = Machine::asleep_beside(20, 120);
    for timer in 0..10 {
        let at = 61.0 + f64::from(timer) * 2.0;
        machine.at(at, 20, Kind::TimerExpire { timer: timer as u64 + 20, function: 99, now_ns: DUE as i64 + 60_000 });
        machine.at(at + 1.0, 20, Kind::TimerDone { timer: timer as u64 + 20 });
    }
    machine.at(82.0, 20, Kind::TimerExpire { timer: 7, function: 1, now_ns: DUE as i64 + 60_000 });
    machine.at(83.0, 20, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.at(84.0, 20, Kind::TimerDone { timer: 7 }).runs(90.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::OtherTimers), machine.us(Cause::TimerPath)), (19, 15));
}

#[test]
fn a_loop_that_polls_is_no_idle_state_to_leave() {
    let mut machine = Machine { polls: true, ..Machine::asleep_beside(30, 120) };
    machine.switch(-60.0, (30, 120, 1), (0, 120)).at(-50.0, 0, Kind::Idle { state: Some(0) });
    machine.fires(60.0, 0).at(64.0, 0, Kind::Idle { state: None }).runs(70.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::IdleState), machine.us(Cause::TimerPath)), (0, 13));
    machine.polls = false;
    assert_eq!((machine.us(Cause::IdleState), machine.who(Cause::IdleState)), (10, Who::Idle(Some(0))));
}

#[test]
fn interrupts_that_stay_off_on_the_way_to_idle_are_no_idle_state() {
    let mut machine = Machine::asleep();
    // A short wake-up of another thread; the switch back takes long.
    machine.at(-50.0, 0, Kind::Idle { state: None }).switch(-48.0, (0, 120, 0), (30, 120));
    machine.switch(-40.0, (30, 120, 1), (0, 120)).fires(350.0, 0).runs(360.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::InterruptsOff), machine.who(Cause::InterruptsOff)), (300, Who::Thread(0)));
    assert_eq!(machine.us(Cause::IdleState), 0);
    // A CPU that shows no idle states may be in one.
    machine.events.retain(|event| !matches!(event.kind, Kind::Idle { .. }));
    assert_eq!((machine.us(Cause::InterruptsOff), machine.who(Cause::IdleState)), (0, Who::Idle(None)));
}

#[test]
fn a_stop_is_not_the_timers_doing() {
    let mut machine = Machine::asleep();
    // SIGSTOP before the deadline, SIGCONT 500 us after it; the call is restarted and its timer fires at once.
    machine.at(-50.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 }).switch(-49.0, (0, 120, 0), (OWN, 120));
    machine.at(-48.0, OWN, Kind::Leave { number: 230, returned: -516 });
    machine.switch(-47.0, (OWN, 120, 4), (0, 120)).at(500.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.switch(510.0, (0, 120, 0), (OWN, 120)).at(511.0, OWN, Kind::Enter { number: 219, args: [0; 4] });
    machine.at(
        512.0,
        OWN,
        Kind::TimerStart { timer: 7, function: 1, soft_ns: DUE as i64, hard_ns: DUE as i64 + 50_000 },
    );
    machine.switch(513.0, (OWN, 120, 1), (0, 120)).fires(515.0, 0).runs(525.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::Stopped), machine.split().unwrap().late_ns()), (510, 528_000));
    // The timer fires before the thread sleeps again.
    machine.events.truncate(machine.events.len() - 6);
    let now_ns = DUE as i64 + 514_000;
    machine.at(514.0, OWN, Kind::TimerExpire { timer: 7, function: 1, now_ns });
    machine.at(515.0, OWN, Kind::Waking { tid: OWN, target_cpu: 0 }).at(516.0, OWN, Kind::TimerDone { timer: 7 });
    machine.at(518.0, OWN, Kind::Leave { number: 230, returned: 0 });
    assert_eq!((machine.us(Cause::Stopped), machine.split().unwrap().late_ns()), (510, 518_000));
    // The kernel does not start the timer, because its time is over.
    machine.events.truncate(machine.events.len() - 4);
    machine.at(514.0, OWN, Kind::Leave { number: 230, returned: 0 });
    assert_eq!((machine.us(Cause::Stopped), machine.split().unwrap().late_ns()), (510, 514_000));
    // Without a stop, something else woke it that was not seen.
    let mut machine = Machine::asleep();
    machine.runs(90.0, (0, 120, 0));
    assert_eq!(machine.split(), Err(Uncut::NoWaking));
}

#[test]
fn a_stop_on_the_way_back_takes_its_time() {
    let mut machine = Machine::asleep();
    machine.fires(60.0, 0).runs(70.0, (0, 120, 0));
    machine.events.pop();
    // It has its wake-up behind it: a page fault shows it.
    machine.at(71.0, OWN, Kind::Fault).switch(72.0, (OWN, 120, 4), (0, 120));
    machine.at(572.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.runs(580.0, (0, 120, 0));
    let cut = machine.split().unwrap();
    let back = cut.pieces.iter().find(|piece| (piece.part, piece.cause) == (LatePart::Return, Cause::Stopped));
    assert_eq!(back.map(|piece| piece.ns), Some(500_000), "{cut:?}");
}

#[test]
fn a_fault_on_the_way_back_takes_its_sleep() {
    let mut machine = Machine::asleep();
    machine.fires(60.0, 0).switch(70.0, (0, 120, 0), (OWN, 120)).at(71.0, OWN, Kind::Fault);
    machine.switch(72.0, (OWN, 120, 1), (0, 120)).at(972.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.runs(980.0, (0, 120, 0));
    let cut = machine.split().unwrap();
    assert_eq!((cut.timed, cut.late_ns(), machine.us(Cause::PageFault)), (true, 983_000, 909));
}

#[test]
fn a_sleep_without_a_fault_on_the_way_back_is_the_return_path() {
    let mut machine = Machine::asleep();
    machine.fires(60.0, 0).switch(70.0, (0, 120, 0), (OWN, 120)).at(71.0, OWN, Kind::Fault);
    machine.switch(72.0, (OWN, 120, 1), (0, 120)).at(172.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 });
    machine.switch(180.0, (0, 120, 0), (OWN, 120)).switch(182.0, (OWN, 120, 1), (0, 120));
    machine.at(282.0, 0, Kind::Waking { tid: OWN, target_cpu: 0 }).runs(290.0, (0, 120, 0));
    let cut = machine.split().unwrap();
    let back = cut.pieces.iter().find(|piece| (piece.part, piece.cause) == (LatePart::Return, Cause::ReturnPath));
    // Running for 1, 2 and 3 us, and asleep for 100.
    assert_eq!((machine.us(Cause::PageFault), back.map(|piece| piece.ns / 1000)), (109, Some(106)), "{cut:?}");
}

#[test]
fn a_thread_that_takes_the_cpu_on_the_way_back_preempts() {
    let mut machine = Machine::asleep();
    machine.fires(60.0, 0).switch(70.0, (0, 120, 0), (OWN, 120));
    machine.switch(71.0, (OWN, 120, 0), (20, 120)).runs(571.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::Preempted), machine.who(Cause::Preempted)), (500, Who::Thread(20)));
    assert_eq!(machine.us(Cause::OtherThread), 0);
}

#[test]
fn a_partner_is_late_from_its_wake_up_on() {
    let mut machine = Machine::asleep_beside(20, 120);
    machine.at(-10.0, 20, Kind::Waking { tid: OWN, target_cpu: 0 }).runs(40.0, (20, 120, 1));
    let cut = machine.split().unwrap();
    assert_eq!((cut.timed, cut.due_ns, cut.late_ns()), (false, DUE - 10_000, 53_000));
}

#[test]
fn what_was_not_seen_is_not_cut() {
    let mut machine = Machine::asleep();
    machine.runs(90.0, (0, 120, 0));
    assert_eq!(machine.split(), Err(Uncut::NoWaking));
    let mut machine = Machine::asleep();
    machine.fires(60.0, 0).at(93.0, OWN, Kind::Leave { number: 230, returned: 0 });
    assert_eq!(machine.split(), Err(Uncut::NoSwitch));
}

proptest::proptest! {
    #[test]
    fn parts_always_add_up(steps in proptest::collection::vec((1..400_u32, 0..9_u8), 0..60)) {
        let mut machine = Machine::asleep_beside(20, 120);
        let (mut at, mut running) = (-50.0, 20);
        for (step, what) in steps {
            at += f64::from(step);
            match what {
                0 => { machine.at(at, running, Kind::Softirq { vector: 1 }); }
                1 => { machine.at(at, running, Kind::SoftirqDone); }
                2 => { machine.at(at, running, Kind::Nmi { took_ns: 9000 }); }
                3 | 4 => { machine.switch(at, (running, 120, 0), (20 + i32::from(what), 120)); running = 20 + i32::from(what); }
                5 => { machine.switch(at, (running, 120, 1), (0, 120)); running = 0; }
                6 => { machine.at(at, 0, Kind::Idle { state: Some(1) }); }
                7 => { machine.at(at, 0, Kind::Idle { state: None }); }
                _ => { machine.at(at, running, Kind::TimerDone { timer: 3 }); }
            }
        }
        machine.fires(at + 5.0, running).runs(at + 30.0, (running, 120, 0));
        // `split` itself holds that the parts add up.
        proptest::prop_assert!(machine.split().is_ok() || at + 33.0 < 0.0);
    }
}
