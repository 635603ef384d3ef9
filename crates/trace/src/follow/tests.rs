//! Tests of the follower, on made-up events.

use super::*;
use crate::event::Thread;

#[test]
fn a_cpu_that_is_left_for_idle_and_never_by_it_is_found() {
    let mut follower = Follower::new(&Target::default(), Clocks::ahead_by([0; 4]), None);
    let thread = |tid| Thread { tid, prio: 120, name: Name::default() };
    let mut switch = |time_ns, cpu, from, to| {
        let kind = Kind::Switch { prev: thread(from), prev_state: 1, next: thread(to) };
        follower
            .take(&Batch { events: vec![Event { time_ns, cpu, tid: from, kind }], losses: Vec::new() }, &mut |_, _| ());
    };
    for time in 0..20 {
        switch(time, 1, 5, 0);
        switch(time, 0, 5, 0);
        switch(time, 0, 0, 5);
    }
    // CPU 2 was left for idle only now and then.
    (0..5).for_each(|time| switch(time, 2, 5, 0));
    assert_eq!(follower.silent_when_idle().collect::<Vec<_>>(), [1]);
    assert_eq!([0, 1, 2, 3].map(|cpu| follower.shows_idle(cpu)), [Some(true), Some(false), None, None]);
}

#[test]
fn a_waker_that_ran_before_the_wait_counts_from_its_beginning() {
    let mut follower = Follower::new(&Target::default(), Clocks::ahead_by([0; 4]), None);
    let thread = |tid| Thread { tid, prio: 120, name: Name::default() };
    let mut switch = |time_ns, from, to| {
        let kind = Kind::Switch { prev: thread(from), prev_state: 0, next: thread(to) };
        let events = vec![Event { time_ns, cpu: 0, tid: from, kind }];
        follower.take(&Batch { events, losses: Vec::new() }, &mut |_, _| ());
    };
    // It runs since 100, and waits for its CPU from 1200 to 1500.
    for (time, from, to) in [(100, 5, 20), (1200, 20, 6), (1500, 6, 20)] {
        switch(time, from, to);
    }
    let waker = Link { tid: 20, call: None, delay_ns: 300, worked_ns: 1600, inherited: None };
    assert_eq!(follower.meanwhile(&waker, 1000, 2000), (300, 700));
    // One that woke up within the wait is known exactly.
    assert_eq!(follower.meanwhile(&Link { worked_ns: 400, ..waker }, 1000, 2000), (300, 400));
    // Too long to look back: neither exceeds the wait.
    let long = Link { delay_ns: 90_000_000, worked_ns: 50_000_000, ..waker };
    assert_eq!(follower.meanwhile(&long, 0, 60_000_000), (10_000_000, 50_000_000));
}

#[test]
fn calls_before_the_program_is_executed_are_not_its_own() {
    let target = Target { tids: vec![7], with_children: false };
    let mut follower = Follower::new(&target, Clocks::ahead_by([0; 4]), None);
    follower.executes(7);
    let number = |name| punctual_linux::syscall_name::number_of(name).unwrap();
    let [execve, read] = [number("execve"), number("read")];
    let enter = |number| Kind::Enter { number, args: [0; 4] };
    let leave = |number, returned| Kind::Leave { number, returned };
    let kinds = [
        enter(read),
        leave(read, 0),
        enter(execve),
        leave(execve, -2),
        enter(execve),
        leave(execve, 0),
        enter(read),
        leave(read, 5),
    ];
    let event = |(at, kind)| Event { time_ns: 100_000 * at as u64, cpu: 0, tid: 7, kind };
    let events = kinds.into_iter().enumerate().map(event).collect();
    let mut calls = Vec::new();
    follower.take(&Batch { events, losses: Vec::new() }, &mut |_, call| calls.push((call.number, call.returned)));
    follower.suspend(&mut |_, call| calls.push((call.number, call.returned)));
    assert_eq!(calls, [(read, 5)]);
}

#[test]
fn a_thread_is_known_by_its_latest_name() {
    let mut follower = Follower::new(&Target::default(), Clocks::ahead_by([0; 4]), None);
    let name = |text: &str| Name::new(text.as_bytes());
    let thread = |tid| Thread { tid, prio: 120, name: name("before") };
    let kinds = [
        Kind::Switch { prev: thread(1), prev_state: 1, next: thread(7) },
        Kind::Rename { tid: 7, name: name("after") },
        Kind::Fork { parent: 7, child: 9 },
        // One that never ran is not known by its name alone.
        Kind::Rename { tid: 8, name: name("other") },
    ];
    let events = kinds.into_iter().map(|kind| Event { time_ns: 1, cpu: 0, tid: 7, kind }).collect();
    follower.take(&Batch { events, losses: Vec::new() }, &mut |_, _| ());
    assert_eq!((follower.known(7).name, follower.known(1).name), (name("after"), name("before")));
    assert_eq!((follower.known(9).name, follower.known(9).prio), (name("after"), 120));
    assert_eq!(follower.known(8).name, Name::default());
}
