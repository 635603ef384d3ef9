//! The rings on the real kernel.

use std::time::Duration;

use punctual_trace::{Error, Kind, Level, Room, Tap, Threads};

/// None where this machine does not permit it, which is said.
fn tap(level: Level) -> Option<Tap> {
    tap_with(level, Room::Large)
}

fn tap_with(level: Level, room: Room) -> Option<Tap> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    match Tap::open(&Threads::near([own]), level, room) {
        Ok(tap) => Some(tap),
        Err(e @ (Error::Refused(_) | Error::Tracefs(_) | Error::NoEvent(_))) => {
            punctual_testing::lacks(&format!("tracepoints: {e}"));
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_sleep_shows_its_timer_and_its_system_call() {
    let Some(mut tap) = tap(Level::Causes) else { return };
    tap.switch(true).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    tap.switch(false).unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let batch = tap.read_all();
    assert!(batch.events.is_sorted_by_key(|event| event.time_ns));
    let ours: Vec<_> = batch.events.iter().filter(|event| event.tid == own).collect();
    // The tick's timer is set while the thread runs, too, but for another time.
    let asked = |event: &&punctual_trace::Event| match event.kind {
        Kind::TimerStart { soft_ns, hard_ns, .. } => {
            soft_ns <= hard_ns && (1_000_000..=2_000_000).contains(&(soft_ns - event.time_ns.cast_signed()))
        }
        _ => false,
    };
    let asked = ours.iter().position(asked).unwrap_or_else(|| panic!("{ours:?}"));
    let slept = |kind: &Kind| matches!(kind, Kind::Switch { prev_state, .. } if prev_state & 0xff != 0);
    let left = asked + ours[asked..].iter().position(|event| slept(&event.kind)).unwrap_or_else(|| panic!("{ours:?}"));
    assert!(ours[left..].iter().any(|event| matches!(event.kind, Kind::Leave { returned: 0, .. })), "{ours:?}");
}

#[test]
fn nothing_is_recorded_while_it_is_off_and_nothing_twice() {
    let Some(mut tap) = tap(Level::Core) else { return };
    std::thread::sleep(Duration::from_millis(1));
    assert!(tap.read_all().events.is_empty());
    tap.switch(true).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    tap.switch(false).unwrap();
    assert!(!tap.read_all().events.is_empty());
    assert!(tap.read_all().events.is_empty());
    assert!(tap.missing().is_empty());
}

#[test]
fn a_full_ring_counts_what_it_drops() {
    // The kernel says what a ring dropped when it can write to it again: all events go to one.
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
    let Some(mut tap) = tap_with(Level::Core, Room::Small) else { return };
    tap.switch(true).unwrap();
    // Each call is two events of at least 48 bytes; the ring holds 256 KiB.
    for _ in 0..60_000 {
        let _ = rustix::process::getppid();
    }
    let first = tap.read_all();
    let full = first.events.len();
    let _ = rustix::process::getppid();
    tap.switch(false).unwrap();
    // A short event may still fit where a longer one did not, and then says so.
    let losses = [first.losses, tap.read_all().losses].concat();
    let dropped: u64 = losses.iter().map(|(_, _, number)| number).sum();
    assert!(full < 6_000, "{full} events in a ring of 256 KiB");
    assert_eq!((dropped, dropped > 0), (tap.lost(), true));
}

#[test]
fn a_plain_user_gets_the_remedy() {
    if !punctual_testing::needs_root("to become a plain user") {
        return;
    }
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(12_347);
        rustix::thread::set_thread_uid(nobody).unwrap();
        Tap::open(&Threads::near([1]), Level::Core, Room::Large).map(drop).unwrap_err().to_string()
    });
    assert!(refused.join().unwrap().contains("remedy: "));
}
