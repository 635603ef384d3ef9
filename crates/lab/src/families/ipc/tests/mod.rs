//! Trips between real processes: everything arrives, whatever the queue, the size and the signals.

mod lossy;
mod record;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual::backoff::Limits;
use punctual::conditions::Conditions;
use punctual_linux as linux;
use punctual_linux::signal::Interruptible;
use punctual_record::Recorder;
use punctual_testing::{Disturbed, skip, undisturbed};

use super::mechanism::{Mechanism, Receive};
use super::message::Integrity;
use super::peer::Job;
use super::trip::{Passed, Trip};
use super::{Mode, mechanism_named, mechanisms};
use crate::families::ipc::keeper::Keeper;
use crate::frame::Failure;

struct Asked {
    size: usize,
    messages: u64,
    mode: Mode,
    receive: Receive,
    depth: Option<usize>,
    cpus: (Option<usize>, Option<usize>),
}

impl Asked {
    fn new(mode: Mode, size: usize, messages: u64) -> Self {
        Self { size, messages, mode, receive: Receive::Block, depth: None, cpus: (None, None) }
    }
}

/// A trip on this thread; skipped where the machine lacks the mechanism.
fn trip(mechanism: &'static Mechanism, asked: &Asked) -> Option<(Passed, Recorder)> {
    let keeper = Keeper::start().expect("a keeper");
    let me = Interruptible::this_thread().expect("a thread that can be interrupted");
    trip_with(mechanism, asked, &keeper, &me)
}

/// The same, repeated where it lost more than it should. A process without a CPU for a second is late with its message. If the
/// mechanism may lose some, it is given up.
fn trip_that_loses(lost: u64, mechanism: &'static Mechanism, asked: &Asked) -> Option<(Passed, Recorder)> {
    undisturbed(|_| match trip(mechanism, asked) {
        Some((passed, _)) if !mechanism.reliable && passed.integrity.lost > lost => {
            Err(Disturbed(format!("{}: {passed:?}", mechanism.name)))
        }
        trip => Ok(trip),
    })
}

fn trip_with(
    mechanism: &'static Mechanism,
    asked: &Asked,
    keeper: &Keeper,
    me: &Interruptible,
) -> Option<(Passed, Recorder)> {
    match attempt(mechanism, asked, keeper, me) {
        (Ok(passed), recorder) => Some((passed, recorder)),
        (Err(Failure::Impossible(no)), _) => {
            skip(&format!("{}: {no}", mechanism.name));
            None
        }
        (Err(broken), _) => panic!("{}: {broken:?}", mechanism.name),
    }
}

fn attempt(
    mechanism: &'static Mechanism,
    asked: &Asked,
    keeper: &Keeper,
    me: &Interruptible,
) -> (Result<Passed, Failure>, Recorder) {
    let mut recorder = Recorder::new();
    let cpus = linux::sched::affinity(0).expect("the CPUs of this thread");
    let receive = if mechanism.only_polls { Receive::Poll } else { asked.receive };
    let trip = Trip {
        mechanism,
        label: "as found",
        job: Job {
            size: asked.size,
            warmup: 5,
            messages: asked.messages,
            mode: asked.mode,
            verify: true,
            lossy: !mechanism.reliable,
            window: Job::window_of(mechanism.in_flight, asked.depth).filter(|_| asked.mode != Mode::PingPong),
            cpu: asked.cpus.1,
            same_cpu: asked.cpus.0.is_some() && asked.cpus.0 == asked.cpus.1,
            conditions: Conditions::new(),
        },
        depth: asked.depth,
        receive,
        cpu: asked.cpus.0,
        limits: Limits { spins: 100, yields: 3, longest_yield: Duration::from_micros(100) },
        keeper,
        interrupter: me.interrupter(),
        cpus: &cpus,
    };
    (trip.make(&mut recorder, None), recorder)
}

/// The size itself, or the largest that the mechanism carries.
fn carried(mechanism: &Mechanism, size: usize) -> usize {
    (mechanism.largest)().bytes.map_or(size, |bytes| size.min(bytes as usize))
}

/// The first CPU for both, unless both would wait for the end of each other's time slice.
fn place(mechanism: &Mechanism) -> (Option<usize>, Option<usize>) {
    let first = linux::sched::affinity(0).expect("the CPUs of this thread").first().copied();
    if mechanism.only_polls { (None, None) } else { (first, first) }
}

/// Every mechanism carries messages of several sizes each way, this number of the smallest.
fn carry(small: u64, larger: u64, largest: u64) {
    for mechanism in mechanisms() {
        let mut sizes = BTreeSet::new();
        for (size, messages) in [(64, small), (1_000, larger), (4_096, larger), (65_536, largest)] {
            let size = carried(mechanism, size);
            if !sizes.insert(size) {
                continue;
            }
            let asked = Asked { cpus: place(mechanism), ..Asked::new(Mode::PingPong, size, messages) };
            let Some((passed, recorder)) = trip_that_loses(0, mechanism, &asked) else { break };
            assert_eq!(passed.integrity, Integrity::default(), "{} {size}", mechanism.name);
            assert_eq!(recorder.count(), messages, "{} {size}", mechanism.name);
            assert!(recorder.extremes().expect("some").0 > 0, "{} {size}: time goes forward", mechanism.name);
        }
    }
}

#[test]
fn every_mechanism_carries_verified_messages_each_way() {
    carry(300, 300, 15);
}

#[test]
#[ignore = "slow: run by the gate"]
fn every_mechanism_carries_a_hundred_thousand_verified_messages_each_way() {
    // A mistake in the order of messages shows with their number, one in their bytes with few of each size.
    carry(100_000, 5_000, 500);
}

/// A sender without pauses, through a queue of one message and through one of the usual depth; this number of small and of larger ones.
fn saturate(small: u64, larger: u64) {
    for mechanism in mechanisms().filter(|m| m.reliable) {
        for (size, depth, messages) in [(64, Some(1), small), (64, None, small), (3_000, None, larger)] {
            let size = carried(mechanism, size);
            let asked = Asked { depth, cpus: place(mechanism), ..Asked::new(Mode::Saturated, size, messages) };
            let Some((passed, recorder)) = trip(mechanism, &asked) else { break };
            assert_eq!(passed.integrity, Integrity::default(), "{} {size}", mechanism.name);
            assert_eq!(recorder.count(), messages, "{} {size}", mechanism.name);
            assert_eq!(passed.account.sent, messages + 5, "{} {size}", mechanism.name);
        }
    }
}

#[test]
fn a_full_queue_loses_nothing() {
    saturate(1_000, 1_000);
}

#[test]
#[ignore = "slow: run by the gate"]
fn a_full_queue_loses_none_of_a_hundred_thousand() {
    saturate(100_000, 10_000);
}

#[test]
fn each_wakes_a_receiver_that_sleeps_and_serves_one_that_polls() {
    for mechanism in mechanisms() {
        for receive in [Receive::Block, Receive::Poll, Receive::Backoff] {
            let sleeps = receive == Receive::Block && !mechanism.only_polls;
            let there = undisturbed(|longer| {
                let every = Duration::from_millis(3) * longer;
                let asked = Asked { receive, ..Asked::new(Mode::Sporadic { every }, carried(mechanism, 100), 20) };
                let Some((passed, recorder)) = trip_that_loses(0, mechanism, &asked) else { return Ok(false) };
                assert_eq!(
                    (passed.integrity, recorder.count()),
                    (Integrity::default(), 20),
                    "{} {receive:?}",
                    mechanism.name
                );
                // A receiver that waits for a CPU longer than the sender pauses finds a message each time, and never sleeps.
                let slept = passed.usage.voluntary.is_none_or(|switches| switches >= 1);
                let never = || Disturbed(format!("{} did not sleep: {passed:?}", mechanism.name));
                if sleeps && !slept { Err(never()) } else { Ok(true) }
            });
            if !there {
                break;
            }
        }
    }
}

#[test]
fn a_storm_of_signals_loses_nothing() {
    let me = Interruptible::this_thread().expect("a thread that can be interrupted");
    let keeper = Keeper::start().expect("a keeper");
    let over = Arc::new(AtomicBool::new(false));
    let storm = std::thread::spawn({
        let (over, interrupter) = (Arc::clone(&over), me.interrupter());
        move || {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                interrupter.interrupt().expect("the thread is there");
                sent += 1;
                std::thread::sleep(Duration::from_micros(50));
            }
            sent
        }
    });
    for mechanism in mechanisms().filter(|m| m.reliable) {
        for mode in [Mode::Saturated, Mode::PingPong] {
            let asked = Asked { cpus: place(mechanism), ..Asked::new(mode, carried(mechanism, 5_000), 1_000) };
            let Some((passed, recorder)) = trip_with(mechanism, &asked, &keeper, &me) else { break };
            assert_eq!(
                (passed.integrity, recorder.count()),
                (Integrity::default(), 1_000),
                "{} {mode}",
                mechanism.name
            );
        }
    }
    over.store(true, Ordering::Relaxed);
    assert!(storm.join().expect("the storm ends") > 100);
}

#[test]
fn datagrams_that_are_lost_are_counted_and_end_the_trip() {
    let udp = mechanism_named("udp").expect("udp is a mechanism");
    let first = linux::sched::affinity(0).expect("the CPUs of this thread").first().copied();
    // Both on one CPU: the sender fills the receiver's buffer many times before the receiver runs.
    let asked = Asked { cpus: (first, first), ..Asked::new(Mode::Saturated, 8_000, 3_000) };
    let Some((passed, recorder)) = trip(udp, &asked) else { return };
    assert_eq!(passed.account.sent, 3_005);
    let Integrity { lost, duplicates, torn, reordered } = passed.integrity;
    assert_eq!((duplicates, torn, reordered), (0, 0, 0));
    // Some warm-up messages may be lost as well.
    assert!((3_000..=3_005).contains(&(recorder.count() + lost)), "{} arrived, {lost} were lost", recorder.count());
}

#[test]
fn a_rate_is_kept_by_the_clock() {
    let ring = mechanism_named("ring").expect("ring is a mechanism");
    let asked = Asked::new(Mode::Rate { per_second: 2_000.0 }, 64, 100);
    let Some((_, recorder)) = trip(ring, &asked) else { return };
    assert_eq!(recorder.count(), 100);
    // Latency counts from the due time, and no message is sent before it.
    assert!(recorder.extremes().expect("some").0 > 0);
}

#[test]
fn names_are_unique_and_every_mechanism_opens_and_closes() {
    let mut names = BTreeSet::new();
    for mechanism in mechanisms() {
        assert!(names.insert(mechanism.name.as_str()), "{} twice", mechanism.name);
        assert!(!mechanism.about.is_empty() && !mechanism.call.is_empty() && !(mechanism.largest)().from.is_empty());
        if let Err(no) = super::try_open(mechanism) {
            skip(&format!("{}: {no}", mechanism.name));
        }
    }
}
