//! Threads that are kept from a CPU by limits, or by the host.

use super::*;

#[test]
fn a_quota_keeps_a_ready_thread_from_an_idle_cpu() {
    let mut machine = Machine { limited: true, used_up: true, ..Machine::asleep() };
    machine.fires(60.0, 0).runs(40_060.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::Quota), machine.us(Cause::IdleState)), (39_997, 10));
    machine.used_up = false;
    assert_eq!(machine.us(Cause::Quota), 0);
    (machine.used_up, machine.limited) = (true, false);
    assert_eq!(machine.us(Cause::Quota), 0);
    // The CPU went idle again although the thread was ready.
    let mut machine = Machine { limited: true, used_up: true, ..Machine::asleep() };
    machine.fires(60.0, 0).at(65.0, 0, Kind::Idle { state: None }).at(66.0, 0, Kind::Idle { state: Some(1) });
    machine.at(400.0, 0, Kind::Idle { state: None }).runs(410.0, (0, 120, 0));
    assert!(machine.us(Cause::Quota) >= 340);
    machine.used_up = false;
    assert_eq!(machine.us(Cause::Quota), 0);
}

#[test]
fn a_quota_holds_for_the_least_nice_thread() {
    // A nice value of -20 is the priority after the real-time ones.
    let mut machine = Machine { limited: true, used_up: true, own_prio: 100, ..Machine::asleep() };
    machine.fires(60.0, 0).at(65.0, 0, Kind::Idle { state: None }).at(66.0, 0, Kind::Idle { state: Some(1) });
    machine.at(400.0, 0, Kind::Idle { state: None }).runs(410.0, (0, 120, 0));
    assert!(machine.us(Cause::Quota) >= 340, "{:?}", machine.split());
    machine.own_prio = 99;
    machine.events.truncate(machine.events.len() - 2);
    machine.runs(410.0, (0, 120, 0));
    assert_eq!(machine.us(Cause::Quota), 0, "a real-time thread has no quota of this kind");
}

#[test]
fn a_quota_takes_the_cpu_on_the_way_back() {
    let mut machine = Machine { limited: true, used_up: true, ..Machine::asleep() };
    machine.fires(60.0, 0).runs(70.0, (0, 120, 0)).switch(75.0, (OWN, 120, 0), (0, 120));
    machine.at(76.0, 0, Kind::Idle { state: Some(1) }).at(9_070.0, 0, Kind::Idle { state: None });
    machine.switch(9_075.0, (0, 120, 0), (OWN, 120));
    assert_eq!((machine.us(Cause::Quota), machine.split().unwrap().late_ns()), (9_000, 9_075_000));
    // Later, the program has had the CPU.
    let mut machine = Machine { limited: true, used_up: true, ..Machine::asleep() };
    machine.fires(60.0, 0).runs(70.0, (0, 120, 0)).switch(95.0, (OWN, 120, 0), (0, 120));
    machine.switch(9_075.0, (0, 120, 0), (OWN, 120));
    assert_eq!((machine.us(Cause::Quota), machine.split().unwrap().late_ns()), (0, 73_000));
}

#[test]
fn fair_threads_chosen_before_a_real_time_thread_are_throttling() {
    let mut machine = Machine { own_prio: 59, ..Machine::asleep_beside(20, 9) };
    machine.fires(60.0, 20).switch(100.0, (20, 9, 0), (30, 120)).runs(50_000.0, (30, 120, 0));
    assert_eq!((machine.us(Cause::RtThrottling), machine.who(Cause::RtThrottling)), (49_900, Who::Thread(30)));
    // The thread before slept. Nothing kept the real-time thread from the CPU for so long but what the kernel did there.
    let mut machine = Machine { own_prio: 59, ..Machine::asleep_beside(20, 9) };
    machine.fires(60.0, 20).switch(100.0, (20, 9, 1), (30, 120)).runs(387.0, (30, 120, 0));
    assert_eq!((machine.us(Cause::RtThrottling), machine.us(Cause::NotPreempted)), (0, 287));
}

#[test]
fn a_silent_machine_is_the_hosts_doing() {
    let mut machine = Machine::asleep();
    machine.fires(80_000.0, 0).runs(80_010.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::Host), machine.us(Cause::IdleState)), (79_950, 0));
    // An event ends it; the longest silence counts.
    machine.at(70_000.0, 0, Kind::Softirq { vector: 1 }).at(70_010.0, 0, Kind::SoftirqDone);
    assert_eq!((machine.us(Cause::Host), machine.us(Cause::IdleState)), (69_950, 9_990));
    for at in (4..80).step_by(4) {
        let at = f64::from(at) * 1000.0;
        machine.at(at, 0, Kind::Softirq { vector: 1 }).at(at + 1.0, 0, Kind::SoftirqDone);
    }
    assert_eq!(machine.us(Cause::Host), 0);
}

#[test]
fn a_silent_machine_with_a_ready_thread_is_the_hosts_doing() {
    let mut machine = Machine { own_prio: 59, ..Machine::asleep() };
    machine.fires(60.0, 0).at(65.0, 0, Kind::Idle { state: None }).runs(20_060.0, (0, 120, 0));
    assert_eq!((machine.us(Cause::Host), machine.us(Cause::RtThrottling)), (19_995, 0));
    machine.own_prio = 120;
    assert_eq!((machine.us(Cause::Host), machine.us(Cause::Quota)), (19_995, 0));
    // A busy CPU is silent for so long at HZ=100.
    let mut machine = Machine::asleep_beside(20, 120);
    machine.fires(60.0, 20).runs(9_060.0, (20, 120, 0));
    assert_eq!((machine.us(Cause::Host), machine.us(Cause::OtherThread)), (0, 8_997));
}

#[test]
fn the_limit_of_real_time_threads_ends_with_its_timer() {
    let throttled = |function| {
        let mut machine = Machine { own_prio: 59, ..Machine::asleep() };
        machine.fires(60.0, 0).at(
            14_000.0,
            0,
            Kind::TimerExpire { timer: 5, function, now_ns: DUE as i64 + 14_000_000 },
        );
        machine.at(14_010.0, 0, Kind::TimerDone { timer: 5 }).runs(14_020.0, (0, 120, 0));
        [machine.us(Cause::RtThrottling), machine.us(Cause::Host)]
    };
    assert_eq!((throttled(71), throttled(72)), ([13_947, 0], [0, 13_937]));
}

#[test]
fn a_quota_is_named_while_others_run() {
    let mut machine = Machine { limited: true, used_up: true, ..Machine::asleep_beside(20, 120) };
    // Its own group runs until its quota is used up, then another thread, until the quota is filled and later.
    machine.fires(60.0, 20).switch(70.0, (20, 120, 0), (GROUP, 120)).switch(3_000.0, (GROUP, 120, 0), (20, 120));
    let refill = |machine: &mut Machine, function| {
        machine.at(9_000.0, 20, Kind::TimerExpire { timer: 5, function, now_ns: DUE as i64 + 9_000_000 });
        machine.at(9_010.0, 20, Kind::TimerDone { timer: 5 }).runs(9_500.0, (20, 120, 0));
    };
    let mut other = Machine { events: machine.events.clone(), ..machine };
    refill(&mut machine, 70);
    assert_eq!((machine.us(Cause::Quota), machine.us(Cause::OtherTimers)), (6_000, 10));
    assert_eq!((machine.us(Cause::OtherThread), machine.who(Cause::OtherThread)), (3_420, Who::Thread(GROUP)));
    // The kernel counted none, or the thread is in no such group, or no quota was filled.
    machine.used_up = false;
    assert_eq!(machine.us(Cause::Quota), 0);
    (machine.used_up, machine.limited) = (true, false);
    assert_eq!(machine.us(Cause::Quota), 0);
    refill(&mut other, 71);
    assert_eq!(other.us(Cause::Quota), 0);
}

#[test]
fn what_the_kernel_keeps_for_fair_threads_is_throttling() {
    // A real-time thread that wants to run on loses the CPU to a fair one. Then the watched thread wakes up.
    let mut machine = Machine { own_prio: 49, ..Machine::asleep_beside(20, 79) };
    machine.switch(-50.0, (20, 79, 0), (30, 120)).fires(60.0, 30).runs(40_000.0, (30, 120, 0));
    assert_eq!((machine.us(Cause::RtThrottling), machine.who(Cause::RtThrottling)), (39_937, Who::Thread(30)));
    // It slept: the fair thread was not preempted.
    let mut machine = Machine { own_prio: 49, ..Machine::asleep_beside(20, 79) };
    machine.switch(-50.0, (20, 79, 1), (30, 120)).fires(60.0, 30).runs(40_000.0, (30, 120, 0));
    assert_eq!((machine.us(Cause::RtThrottling), machine.us(Cause::NotPreempted)), (0, 39_937));
}
