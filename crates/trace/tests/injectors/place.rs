//! Where the threads of a test run.

use std::sync::OnceLock;
use std::time::Duration;

use punctual_linux::sched::{self, Attributes};
use punctual_linux::sched::{affinity, set_affinity};
use punctual_testing::Lack;
use punctual_trace::{Error, Kind, Level, Room, Tap, Threads};

/// The CPU where late threads run: one that shows the switches from its idle thread. Not every CPU does so after it was
/// taken offline. None where this machine does not permit tracepoints.
pub(crate) fn cpu() -> Option<usize> {
    static CPU: OnceLock<Option<usize>> = OnceLock::new();
    let found = *CPU.get_or_init(|| std::thread::spawn(find).join().expect("the CPUs are tried"));
    if found.is_none() {
        punctual_testing::lacks(Lack::Events);
    }
    found
}

fn find() -> Option<usize> {
    let own = sched::current_thread_id();
    for cpu in affinity(0).unwrap() {
        if set_affinity(0, &[cpu]).is_err() {
            continue;
        }
        let mut tap = match Tap::open(&Threads::near([own]), Level::Causes, Room::Large) {
            Ok(tap) => tap,
            Err(e @ (Error::Refused(_) | Error::Tracefs(_) | Error::NoEvent(_) | Error::Namespace)) => {
                println!("{e}");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let (mut to_idle, mut from_idle) = (0, 0);
        for _ in 0..20 {
            tap.switch(true).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            tap.switch(false).unwrap();
            for event in tap.read_all().events.iter().filter(|event| event.cpu as usize == cpu) {
                if let Kind::Switch { prev, next, .. } = event.kind {
                    to_idle += u32::from(next.tid == 0);
                    from_idle += u32::from(prev.tid == 0);
                }
            }
        }
        // A busy CPU may never go idle.
        if from_idle * 2 >= to_idle {
            return Some(cpu);
        }
    }
    panic!("no CPU shows the switches from its idle thread");
}

/// Lets the calling thread run on this CPU only.
pub(crate) fn on(cpu: usize) {
    set_affinity(0, &[cpu]).unwrap();
}

/// The CPUs of the machine, whatever the calling thread may use.
pub(crate) fn all() -> Vec<usize> {
    affinity(1).unwrap()
}

/// Keeps the calling thread away from this CPU, if there is another.
pub(crate) fn away_from(cpu: usize) {
    let mut others = affinity(0).unwrap();
    keep_from(&mut others, cpu);
}

/// Moves the calling thread to any other CPU than this one.
pub(crate) fn beside(cpu: usize) {
    keep_from(&mut all(), cpu);
}

fn keep_from(others: &mut Vec<usize>, cpu: usize) {
    others.retain(|other| *other != cpu);
    if !others.is_empty() {
        set_affinity(0, others).unwrap();
    }
}

/// Puts the calling thread under SCHED_FIFO.
pub(crate) fn fifo(priority: u32) {
    let wanted = Attributes { policy: sched::FIFO, priority, ..Attributes::default() };
    sched::set_attributes(0, &wanted).unwrap();
}
