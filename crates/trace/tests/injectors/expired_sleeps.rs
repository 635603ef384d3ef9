//! Sleeps whose time is over already, or nearly: the kernel may sleep until the timer's interrupt. Since Linux 7.2 it returns at once.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use punctual_linux::clock::thread_usage;
use punctual_linux::sched::current_thread_id;
use punctual_record::CallCauses;
use punctual_testing::{Disturbed, alone_on_this_machine, undisturbed};
use punctual_trace::{Level, Room, Target, Watch};

use crate::place;
use crate::play::{now, pause, sleep_until};

/// They were over for so long.
const OVER_NS: u64 = 50_000_000;

/// Each sleep that gave up the CPU is a wake-up, and no other is. None is late by what was over before.
pub(crate) fn holds(wanted: usize) {
    let Some(cpu) = place::cpu() else { return };
    let alone = alone_on_this_machine();
    place::away_from(cpu);
    let (switches, sleeps) = undisturbed(|_| sleeps_that_are_over(cpu, wanted));
    drop(alone);
    println!("sleeps that were over: {switches} of {} gave up the CPU; {sleeps:?}", 2 * wanted);
    assert_eq!((sleeps.calls, sleeps.blocked), (2 * wanted as u64, switches));
    assert!(sleeps.late.p50_ns < OVER_NS, "{sleeps:?}");
}

/// How many gave up the CPU, and what the engine says of them all.
fn sleeps_that_are_over(cpu: usize, wanted: usize) -> Result<(u64, CallCauses), Disturbed> {
    let (switches, mut causes) = std::thread::scope(|scope| {
        let (tell, heard) = channel();
        let (begin, may_begin) = channel();
        scope.spawn(move || {
            place::on(cpu);
            tell.send(u64::from(current_thread_id().unsigned_abs())).unwrap();
            may_begin.recv().unwrap();
            let before = thread_usage().unwrap().voluntary_switches;
            for _ in 0..wanted {
                sleep_until(now() - OVER_NS);
                pause(1);
            }
            tell.send((thread_usage().unwrap().voluntary_switches - before) as u64).unwrap();
            // It ends after watching.
            let _ = may_begin.recv();
        });
        let target = Target { tids: vec![heard.recv().unwrap() as i32], with_children: false };
        let mut watch = Watch::open(&target, Level::Causes, Room::Large).unwrap();
        watch.switch(true).unwrap();
        begin.send(()).unwrap();
        let switches = loop {
            watch.pump(Duration::from_millis(10), &mut |_| {}).unwrap();
            match heard.try_recv() {
                Ok(switches) => break switches,
                Err(TryRecvError::Empty) => {}
                Err(e) => panic!("{e}"),
            }
        };
        watch.switch(false).unwrap();
        (switches, watch.causes())
    });
    if causes.lost_events > 0 {
        return Err(Disturbed(format!("the reader was too late for {} events", causes.lost_events)));
    }
    let sleeps = causes.calls.iter().position(|call| call.call == "clock_nanosleep").unwrap();
    Ok((switches, causes.calls.swap_remove(sleeps)))
}
