//! The rings on the real kernel.

use std::time::{Duration, Instant};

use punctual_testing::{Disturbed, GIVE_UP, undisturbed};
use punctual_trace::{Error, Event, Kind, Level, Room, Tap, Threads};

/// By programs in the kernel, where it permits them, and by the rings of perf_event_open(2). None where this machine does not
/// permit it, which is said.
fn taps(level: Level, room: Room) -> Vec<Tap> {
    let own = Threads::near([rustix::thread::gettid().as_raw_nonzero().get()]);
    let taps = [Tap::open(&own, level, room), Tap::open_rings(&own, level, room)];
    let opened = taps.into_iter().filter_map(|tap| match tap {
        Ok(tap) => Some(tap),
        Err(e @ (Error::Refused(_) | Error::Tracefs(_) | Error::NoEvent(_))) => {
            println!("{e}");
            punctual_testing::lacks(punctual_testing::Lack::Events);
            None
        }
        Err(e) => panic!("{e}"),
    });
    opened.collect()
}

#[test]
fn a_sleep_shows_its_timer_and_its_system_call() {
    // A host that takes the CPU within the call moves its times apart. An interrupt within a program loses an event.
    taps(Level::Causes, Room::Small).iter_mut().for_each(|tap| undisturbed(|_| shows_a_sleep(tap)));
}

fn shows_a_sleep(tap: &mut Tap) -> Result<(), Disturbed> {
    tap.switch(true).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    tap.switch(false).unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let batch = tap.read_all();
    assert!(batch.events.is_sorted_by_key(|event| event.time_ns));
    // The tick's timer is set while the thread runs, too, but for another time.
    let asked = |event: &&punctual_trace::Event| match event.kind {
        Kind::TimerStart { soft_ns, hard_ns, .. } => {
            soft_ns <= hard_ns && (1_000_000..=2_000_000).contains(&(soft_ns - event.time_ns.cast_signed()))
        }
        _ => false,
    };
    let slept = |event: &&Event| matches!(event.kind, Kind::Switch { prev_state, .. } if prev_state & 0xff != 0);
    let returned = |event: &&Event| matches!(event.kind, Kind::Leave { returned: 0, .. });
    let mut ours = batch.events.iter().filter(|event| event.tid == own);
    // One after the other.
    let all = ours.any(|event| asked(&event)) && ours.any(|event| slept(&event)) && ours.any(|event| returned(&event));
    all.then_some(()).ok_or_else(|| Disturbed(format!("{:?}", batch.events)))
}

#[test]
fn programs_and_rings_show_the_same_and_do_not_disturb_each_other() {
    let taps = taps(Level::Causes, Room::Small);
    let Ok([mut programs, mut rings]) = <[Tap; 2]>::try_from(taps) else { return };
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut seen = || {
        [&programs, &rings].into_iter().for_each(|tap| tap.switch(true).unwrap());
        let begin = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (0..20).for_each(|_| std::thread::sleep(Duration::from_micros(300)));
        let end = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        [&programs, &rings].into_iter().for_each(|tap| tap.switch(false).unwrap());
        let ns = |time: rustix::time::Timespec| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec as u64;
        let within = ns(begin)..ns(end);
        [&mut programs, &mut rings].map(|tap| {
            let events = tap.read_all().events;
            let ours = |event: &&Event| event.tid == own && within.contains(&event.time_ns);
            events.iter().filter(ours).map(|event| (event.cpu, event.kind)).collect::<Vec<_>>()
        })
    };
    // An event that comes while another is written is dropped, and counted.
    let (begin, mut last) = (Instant::now(), [vec![], vec![]]);
    while begin.elapsed() < GIVE_UP {
        last = seen();
        if last[0] == last[1] && last[0].len() >= 80 {
            return;
        }
    }
    let other = last[0].iter().zip(&last[1]).find(|(by_program, by_ring)| by_program != by_ring);
    panic!("{} events, {} of rings; the first that differs: {other:?}", last[0].len(), last[1].len());
}

#[test]
fn nothing_is_recorded_while_it_is_off_and_nothing_twice() {
    for mut tap in taps(Level::Core, Room::Small) {
        std::thread::sleep(Duration::from_millis(1));
        assert!(tap.read_all().events.is_empty());
        tap.switch(true).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        tap.switch(false).unwrap();
        assert!(!tap.read_all().events.is_empty());
        assert!(tap.read_all().events.is_empty());
        assert!(tap.missing().is_empty());
    }
}

#[test]
fn a_full_ring_counts_what_it_drops() {
    // The kernel says what a ring dropped when it can write to it again: all events go to one.
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
    taps(Level::Core, Room::Small).into_iter().for_each(counts_drops);
}

fn counts_drops(mut tap: Tap) {
    tap.switch(true).unwrap();
    // Each call is two events of at least 48 bytes; the ring holds 256 KiB.
    for _ in 0..60_000 {
        let _ = rustix::process::getppid();
    }
    let first = tap.read_all();
    // Other rings hold what other CPUs do meanwhile, on a busy machine thousands of events.
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let full = first.events.iter().filter(|event| event.tid == own).count();
    let _ = rustix::process::getppid();
    tap.switch(false).unwrap();
    // A short event may still fit where a longer one did not, and then says so.
    let losses = [first.losses, tap.read_all().losses].concat();
    let dropped: u64 = losses.iter().map(|(_, _, number)| number).sum();
    assert!(full < 6_000, "{full} events in a ring of 256 KiB");
    // Where another event came while one was written, it is counted without a place.
    assert!(dropped > 50_000 && dropped <= tap.lost() && tap.lost() < dropped + 5_000, "{dropped}, {}", tap.lost());
}

#[test]
fn a_plain_user_gets_the_remedy() {
    if !punctual_testing::needs_root("to become a plain user") {
        return;
    }
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(12_347);
        rustix::thread::set_thread_uid(nobody).unwrap();
        Tap::open(&Threads::near([1]), Level::Core, Room::Large).map(drop).unwrap_err().remedy()
    });
    assert!(refused.join().unwrap().is_some());
}
