//! The file for Perfetto.

mod perfetto;

use std::cmp::Reverse;
use std::collections::HashMap;

use proptest::prelude::*;
use punctual_record::sanitize::is_harmless;
use punctual_trace::{Batch, ChromeTrace, Event, Kind, Level, Room, Tap, Threads, event};
use serde_json::Value;

/// The lines of a trace.
fn written(batches: &[Batch], origin_ns: u64) -> Vec<Value> {
    let mut trace = ChromeTrace::new(Vec::new(), origin_ns);
    batches.iter().for_each(|batch| trace.take(batch));
    let text = String::from_utf8(trace.finish().unwrap()).unwrap();
    assert!(text.chars().all(|c| c == '\n' || is_harmless(c)), "{text:?}");
    let file: Value = serde_json::from_str(&text).unwrap();
    file["traceEvents"].as_array().unwrap().clone()
}

#[derive(Debug, PartialEq)]
struct Slice {
    track: u64,
    name: String,
    from_ns: u64,
    to_ns: u64,
}

fn ns(micros: &Value) -> u64 {
    let micros = micros.as_f64().unwrap();
    assert!(micros >= 0.0, "{micros}");
    (micros * 1e3).round() as u64
}

/// All slices, once they are found to nest within each other on each track.
fn slices(lines: &[Value]) -> Vec<Slice> {
    let (mut open, mut slices, mut last) = (HashMap::<u64, Vec<Slice>>::new(), Vec::new(), 0);
    for line in lines {
        let (track, name) = (line["tid"].as_u64().unwrap(), line["name"].as_str().unwrap_or_default().to_owned());
        let time = || ns(&line["ts"]);
        match line["ph"].as_str().unwrap() {
            "B" => open.entry(track).or_default().push(Slice { track, name, from_ns: time(), to_ns: u64::MAX }),
            "E" => {
                let begun = open.get_mut(&track).unwrap().pop().expect("each end has a begin");
                assert!(begun.from_ns < time(), "{line}");
                slices.push(Slice { to_ns: time(), ..begun });
            }
            "X" => {
                slices.push(Slice { track, name, from_ns: time(), to_ns: time() + ns(&line["dur"]) });
                continue;
            }
            "M" | "f" => continue,
            "i" | "s" => {}
            other => panic!("{other}"),
        }
        assert!(time() >= last, "{line} after {last}");
        last = time();
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    slices.sort_by_key(|slice| (slice.track, slice.from_ns, Reverse(slice.to_ns)));
    let mut around: Vec<&Slice> = Vec::new();
    for slice in &slices {
        while around.pop_if(|outer| outer.track != slice.track || outer.to_ns <= slice.from_ns).is_some() {}
        assert!(around.last().is_none_or(|outer| slice.to_ns <= outer.to_ns), "{slice:?} crosses {around:?}");
        around.push(slice);
    }
    slices
}

fn slice(slices: &[Slice], name: &str) -> (u64, u64, u64) {
    let found: Vec<_> = slices.iter().filter(|slice| slice.name == name).collect();
    let [one] = found[..] else { panic!("{name}: {slices:#?}") };
    (one.track, one.from_ns, one.to_ns)
}

fn thread(tid: i32, name: &str) -> event::Thread {
    event::Thread { tid, prio: 120, name: event::Name::new(name.as_bytes()) }
}

fn switch(prev: event::Thread, prev_state: i64, next: event::Thread) -> Kind {
    Kind::Switch { prev, prev_state, next }
}

fn events(events: &[(u64, u32, i32, Kind)]) -> Batch {
    let event = |&(time_ns, cpu, tid, kind): &(u64, u32, i32, Kind)| Event { time_ns, cpu, tid, kind };
    Batch { events: events.iter().map(event).collect(), losses: Vec::new() }
}

const NANOSLEEP: i64 = libc::SYS_nanosleep as i64;
const ENTER: Kind = Kind::Enter { number: NANOSLEEP, args: [0; 4] };
const LEAVE: Kind = Kind::Leave { number: NANOSLEEP, returned: 0 };
const IDLE: &str = "swapper/0";

/// Thread 7 on CPU 0 asks to be woken at 100 us. Another thread keeps the CPU from it until 150 us.
fn late_sleep(hostile: &str) -> Batch {
    let (own, other, idle) = (thread(7, "sleeper"), thread(9, hostile), thread(0, IDLE));
    events(&[
        (10_000, 0, 7, ENTER),
        (11_000, 0, 7, Kind::TimerStart { timer: 77, function: 0, soft_ns: 100_000, hard_ns: 150_000 }),
        (12_000, 0, 7, switch(own, 1, idle)),
        (13_000, 0, 0, Kind::Idle { state: Some(99) }),
        (50_000, 0, 0, Kind::Idle { state: None }),
        (51_000, 0, 0, switch(idle, 0, other)),
        (120_000, 0, 9, Kind::TimerExpire { timer: 77, function: 0, now_ns: 120_000 }),
        (121_000, 0, 9, Kind::Waking { tid: 7, target_cpu: 0 }),
        (122_000, 0, 9, Kind::TimerDone { timer: 77 }),
        (150_000, 0, 9, switch(other, 0x100, own)),
        (174_000, 0, 7, LEAVE),
    ])
}

#[test]
fn a_late_sleep_is_a_call_with_its_lateness_and_an_arrow_from_the_timer() {
    let lines = written(&[late_sleep("busy")], 0);
    let slices = slices(&lines);
    assert_eq!(slice(&slices, "nanosleep"), (7, 10_000, 174_000));
    assert_eq!(slice(&slices, "late: 74 us"), (7, 100_000, 174_000));
    assert_eq!(slice(&slices, "woken, not yet running"), (7, 121_000, 150_000));
    let (cpu, from, to) = slice(&slices, "busy 9");
    assert_eq!((from, to), (51_000, 150_000));
    assert_eq!(slice(&slices, "timer"), (cpu, 120_000, 122_000));
    assert_eq!(slice(&slices, "halt"), (cpu, 13_000, 50_000));
    assert_eq!(slice(&slices, "sleeper 7"), (cpu, 150_000, 174_001));
    let arrow = |phase: &str| lines.iter().find(|line| line["ph"] == phase).unwrap();
    assert_eq!((&arrow("s")["id"], &arrow("s")["tid"]), (&arrow("f")["id"], &cpu.into()));
    assert_eq!((&arrow("f")["tid"], &arrow("f")["ts"], &arrow("f")["bp"]), (&7.into(), &121.0.into(), &"e".into()));
    let names = lines.iter().filter(|line| line["name"] == "thread_name").map(|line| &line["args"]["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["CPU 0", "sleeper"]);
}

#[test]
fn a_deadline_of_an_unknown_clock_gives_no_lateness() {
    let mut batch = late_sleep("busy");
    let soft_ns = 1_700_000_000_000_000_000;
    batch.events[1].kind = Kind::TimerStart { timer: 77, function: 0, soft_ns, hard_ns: soft_ns };
    let slices = slices(&written(&[batch], 0));
    assert!(slices.iter().all(|slice| !slice.name.starts_with("late")), "{slices:#?}");
    slice(&slices, "woken, not yet running");
}

#[test]
fn a_deadline_of_the_time_of_day_counts_too() {
    let seconds = |clock| {
        let now = rustix::time::clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let ahead_ns = seconds(rustix::time::ClockId::Realtime) - seconds(rustix::time::ClockId::Monotonic);
    let mut batch = late_sleep("busy");
    // Seconds, because the clocks are read one after the other.
    batch.events.iter_mut().for_each(|event| event.time_ns *= 100_000);
    let soft_ns = ahead_ns + 10_000_000_000;
    batch.events[1].kind = Kind::TimerStart { timer: 77, function: 0, soft_ns, hard_ns: soft_ns };
    batch.events[6].kind = Kind::TimerExpire { timer: 77, function: 0, now_ns: ahead_ns + 12_000_000_000 };
    let slices = slices(&written(&[batch], 0));
    let late = slices.iter().find(|slice| slice.name.starts_with("late: ")).unwrap();
    assert!(late.from_ns.abs_diff(10_000_000_000) < 1_000_000_000 && late.to_ns == 17_400_000_000, "{late:?}");
}

#[test]
fn only_the_watched_threads_and_their_children_have_tracks() {
    let call = |tid| [(10, 0, tid, ENTER), (20, 0, tid, LEAVE)];
    let fork = |parent, child| (5, 0, parent, Kind::Fork { parent, child });
    let batch = events(&[&[fork(7, 8), fork(9, 10)][..], &call(7), &call(8), &call(9), &call(10)].concat());
    for (with_children, expected) in [(true, vec![7, 8]), (false, vec![7])] {
        let target = punctual_trace::Target { tids: vec![7], with_children };
        let mut trace = ChromeTrace::new(Vec::new(), 0).only(&target);
        trace.take(&batch);
        let file: Value = serde_json::from_slice(&trace.finish().unwrap()).unwrap();
        let tracks: Vec<u64> =
            slices(file["traceEvents"].as_array().unwrap()).iter().map(|slice| slice.track).collect();
        assert_eq!(tracks, expected);
    }
}

#[test]
fn a_waker_that_is_no_timer_counts_from_the_wake_up() {
    let mut batch = late_sleep("busy");
    batch.events.retain(|event| !matches!(event.kind, Kind::TimerExpire { .. }));
    assert_eq!(slice(&slices(&written(&[batch], 0)), "late: 53 us"), (7, 121_000, 174_000));
}

#[test]
fn a_wake_up_of_a_thread_that_runs_is_none() {
    let batch = events(&[(10, 0, 7, ENTER), (20, 1, 9, Kind::Waking { tid: 7, target_cpu: 0 }), (30, 0, 7, LEAVE)]);
    let slices = slices(&written(&[batch], 0));
    assert_eq!(slices.len(), 1, "{slices:#?}");
}

#[test]
fn a_preempted_thread_waits_to_run() {
    let (own, other) = (thread(7, "own"), thread(9, "other"));
    let batch = events(&[
        (1_000, 0, 7, ENTER),
        (2_000, 0, 7, switch(own, 0x100, other)),
        (5_000, 0, 9, switch(other, 1, own)),
        (6_000, 0, 7, LEAVE),
    ]);
    assert_eq!(slice(&slices(&written(&[batch], 0)), "preempted"), (7, 2_000, 5_000));
}

#[test]
fn names_cannot_leave_their_string() {
    for hostile in ["\",\"ph\":\"", "a\\\"b\nc\u{1b}[", "</script>", "\u{9b}2J\u{7f}\u{202e}gpj"] {
        let lines = written(&[late_sleep(hostile)], 0);
        slice(&slices(&lines), &format!("{} 9", event::Name::new(hostile.as_bytes())));
    }
    let mut broken = late_sleep("");
    let name = event::Name::new(&[0xff; 16]);
    broken.events[5].kind = switch(thread(0, IDLE), 0, event::Thread { tid: 9, prio: 120, name });
    slice(&slices(&written(&[broken], 0)), &format!("{} 9", "\u{fffd}".repeat(16)));
}

#[test]
fn what_began_before_the_first_event_or_the_origin_is_left_out() {
    let early = events(&[
        (10_000, 0, 7, LEAVE),
        (11_000, 0, 7, Kind::SoftirqDone),
        (12_000, 0, 7, Kind::TimerDone { timer: 1 }),
        (13_000, 0, 7, Kind::Idle { state: None }),
        (14_000, 0, 7, Kind::Fault),
    ]);
    assert_eq!(slices(&written(&[early], 0)), []);
    let lines = written(&[late_sleep("busy")], 100_000);
    let slices = slices(&lines);
    assert!(slices.iter().all(|slice| slice.name != "nanosleep"), "{slices:#?}");
    assert_eq!(slice(&slices, "sleeper 7").1, 50_000);
}

#[test]
fn lost_events_are_said_and_end_what_is_open() {
    let mut batch = late_sleep("busy");
    batch.losses.push((12_000, 0, 12));
    let lines = written(&[batch], 0);
    let slices = slices(&lines);
    assert_eq!(slice(&slices, "nanosleep"), (7, 10_000, 12_001));
    assert!(slices.iter().all(|slice| !slice.name.starts_with("late")), "{slices:#?}");
    let lost = lines.iter().find(|line| line["name"] == "12 events lost").unwrap();
    assert_eq!((&lost["ph"], &lost["ts"]), (&"i".into(), &12.001.into()));
}

#[test]
fn the_first_error_of_the_writer_is_returned() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut trace = ChromeTrace::new(full, 0);
    (0..2000).for_each(|_| trace.take(&late_sleep("busy")));
    assert_eq!(trace.finish().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
}

/// Keeps the CPU of the calling thread, which it pins there, from idling. Some kernels hide events while their idle thread runs.
fn with_a_busy_neighbour(work: impl FnOnce()) {
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It inherits the CPU.
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Sleeps of this thread, recorded by the kernel.
#[test]
fn own_sleeps_are_in_the_file() {
    with_a_busy_neighbour(sleep_and_look);
}

fn sleep_and_look() {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut tap = match Tap::open(&Threads::near([own]), Level::Causes, Room::Large) {
        Ok(tap) => tap,
        Err(_) => return punctual_testing::lacks(punctual_testing::Lack::Events),
    };
    tap.switch(true).unwrap();
    let sleep_and_read = |_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        tap.read()
    };
    let batches: Vec<Batch> = (0..20).map(sleep_and_read).collect();
    tap.switch(false).unwrap();
    let mut trace = ChromeTrace::new(tempfile::NamedTempFile::new().unwrap(), 0);
    batches.iter().chain([&tap.read_all()]).for_each(|batch| trace.take(batch));
    let file = trace.finish().unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lines = serde_json::from_str::<Value>(&text).unwrap();
    let slices = slices(lines["traceEvents"].as_array().unwrap());
    let own = u64::try_from(own).unwrap();
    let sleeps: Vec<_> = slices.iter().filter(|slice| slice.track == own && slice.name == "clock_nanosleep").collect();
    assert!(sleeps.len() >= 20 || tap.lost() > 0, "{slices:#?}");
    assert!(sleeps.iter().filter(|sleep| sleep.to_ns - sleep.from_ns >= 1_000_000).count() > 0, "{sleeps:#?}");
    let inside = |late: &Slice| sleeps.iter().any(|sleep| late.from_ns >= sleep.from_ns && late.to_ns <= sleep.to_ns);
    let late: Vec<_> = slices.iter().filter(|slice| slice.track == own && slice.name.starts_with("late: ")).collect();
    assert!(slices.iter().any(|slice| slice.name.starts_with("timer")), "{slices:#?}");
    assert!(!late.is_empty() && late.iter().all(|late| inside(late)), "{slices:#?}");
}

fn any_event() -> impl Strategy<Value = Event> {
    let tid = 0..4_i32;
    let thread = (0..4_i32, any::<[u8; 16]>()).prop_map(|(tid, name)| event::Thread {
        tid,
        prio: 120,
        name: event::Name::new(&name),
    });
    let kind = prop_oneof![
        (0..3_u64, any::<i64>()).prop_map(|(timer, soft_ns)| Kind::TimerStart {
            timer,
            function: 0,
            soft_ns,
            hard_ns: soft_ns
        }),
        (0..3_u64, 0..2000_i64).prop_map(|(timer, soft_ns)| Kind::TimerStart {
            timer,
            function: 0,
            soft_ns,
            hard_ns: soft_ns
        }),
        (0..3_u64).prop_map(|timer| Kind::TimerExpire { timer, function: 0, now_ns: 5 }),
        (0..3_u64).prop_map(|timer| Kind::TimerDone { timer }),
        tid.prop_map(|tid| Kind::Waking { tid, target_cpu: 0 }),
        (thread.clone(), 0..3_i64, thread).prop_map(|(prev, state, next)| switch(prev, state, next)),
        proptest::option::of(any::<u32>()).prop_map(|state| Kind::Idle { state }),
        any::<i64>().prop_map(|number| Kind::Enter { number, args: [0; 4] }),
        any::<i64>().prop_map(|returned| Kind::Leave { number: 1, returned }),
        any::<[u8; 16]>().prop_map(|name| Kind::Interrupt { irq: 1, name: event::Name::new(&name) }),
        any::<i64>().prop_map(|took_ns| Kind::Nmi { took_ns }),
        any::<u32>().prop_map(|vector| Kind::Softirq { vector }),
        prop_oneof![
            Just(Kind::InterruptDone),
            Just(Kind::SoftirqDone),
            Just(Kind::Fault),
            Just(Kind::Exit),
            Just(Kind::Signal { number: 9 }),
            Just(Kind::Migrate { tid: 1, to: 1 }),
            Just(Kind::Inherit { tid: 1, old: 120, new: 39 }),
            Just(Kind::Fork { parent: 1, child: 2 }),
        ],
    ];
    (0..2000_u64, 0..2_u32, 0..4_i32, kind).prop_map(|(time_ns, cpu, tid, kind)| Event { time_ns, cpu, tid, kind })
}

proptest! {
    /// In any order, and of any CPU: what is written nests, and ends.
    #[test]
    fn any_events_give_a_sound_file(
        mut events in proptest::collection::vec(any_event(), 0..80),
        losses in proptest::collection::vec((0..2000_u64, 0..3_u32, 1..9_u64), 0..3),
        is_sorted in any::<bool>(),
        origin_ns in 0..200_u64,
    ) {
        if is_sorted {
            events.sort_by_key(|event| event.time_ns);
        }
        let later = events.split_off(events.len() / 2);
        slices(&written(&[Batch { events, losses }, Batch { events: later, losses: Vec::new() }], origin_ns));
    }
}
