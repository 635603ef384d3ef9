//! Trips over a mechanism that loses, delays and duplicates messages on request.

use super::*;
use crate::families::ipc::mechanism::{Halt, Link, Outlet};

/// The fate of a message.
#[derive(Clone, Copy)]
enum Fate {
    Sent,
    Lost,
    Twice,
    /// Sent later than its timeout.
    Late,
}

/// The fate of the n-th message after the first.
type Fates = fn(u64) -> Fate;

fn none(_: u64) -> Fate {
    Fate::Sent
}

struct Fateful {
    outlet: Box<dyn Outlet>,
    fates: Fates,
    sent: u64,
}

impl Outlet for Fateful {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let fate = (self.fates)(self.sent);
        self.sent += 1;
        match fate {
            Fate::Sent => self.outlet.send(message, halt),
            Fate::Lost => Ok(()),
            Fate::Twice => self.outlet.send(message, halt).and_then(|()| self.outlet.send(message, halt)),
            Fate::Late => {
                std::thread::sleep(Duration::from_millis(1500));
                self.outlet.send(message, halt)
            }
        }
    }
}

/// UDP with these fates for what this process sends and for what the other does.
fn udp(here: Fates, there: Fates) -> &'static Mechanism {
    let udp = mechanism_named("udp").expect("udp is a mechanism");
    let fateful = |outlet: Option<Box<dyn Outlet>>, fates| -> Option<Box<dyn Outlet>> {
        Some(Box::new(Fateful { outlet: outlet?, fates, sent: 0 }))
    };
    let open = Arc::clone(&udp.open);
    Box::leak(Box::new(Mechanism {
        name: "udp with losses".into(),
        open: Arc::new(move |asked| {
            let mut link: Link = open(asked)?;
            link.here.outlet = fateful(link.here.outlet, here);
            link.there.outlet = fateful(link.there.outlet, there);
            Ok(link)
        }),
        ..udp.clone()
    }))
}

const WARMUP: u64 = 5;

#[test]
fn a_lost_message_and_a_lost_answer_are_counted_and_the_trip_goes_on() {
    let here = |n| if n == WARMUP + 20 { Fate::Lost } else { Fate::Sent };
    let there = |n| if n == 40 { Fate::Lost } else { Fate::Sent };
    for receive in [Receive::Block, Receive::Poll, Receive::Backoff] {
        let asked = Asked { receive, ..Asked::new(Mode::PingPong, 64, 100) };
        let Some((passed, recorder)) = trip_that_loses(2, udp(here, there), &asked) else { return };
        assert_eq!(passed.integrity, Integrity { lost: 2, ..Integrity::default() }, "{receive:?}");
        assert_eq!(recorder.count(), 98, "{receive:?}");
        assert_eq!(passed.account.sent, WARMUP + 100, "the other process came to its end");
    }
}

#[test]
fn the_first_and_the_last_may_be_lost_as_well() {
    let ends = |n| if n == 0 || n == WARMUP + 10 - 1 { Fate::Lost } else { Fate::Sent };
    for size in [8, 64] {
        let asked = Asked::new(Mode::PingPong, size, 10);
        let Some((passed, recorder)) = trip_that_loses(2, udp(ends, none), &asked) else { return };
        assert_eq!((passed.integrity.lost, recorder.count()), (2, 9), "{size}");
    }
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_the_next() {
    let there = |n| if n == 30 { Fate::Late } else { Fate::Sent };
    for size in [8, 64] {
        let asked = Asked::new(Mode::PingPong, size, 100);
        // Given up after a second; then the next one waits almost half a second for the other process. With the late answer taken
        // for its own, no message would wait. Without a CPU meanwhile, it is given up when it is nearly there, or never.
        let trip = undisturbed(|_| match trip(udp(none, there), &asked) {
            Some((passed, recorder))
                if passed.integrity.lost != 1 || recorder.extremes().expect("some").1 <= 100_000_000 =>
            {
                Err(Disturbed(format!("{passed:?}, {:?}", recorder.extremes())))
            }
            trip => Ok(trip),
        });
        let Some((passed, recorder)) = trip else { return };
        assert_eq!(passed.integrity, Integrity { lost: 1, ..Integrity::default() }, "{size}");
        assert_eq!(recorder.count(), 99, "{size}");
    }
}

#[test]
fn an_answer_that_comes_twice_is_counted() {
    let there = |n| if n % 10 == 7 { Fate::Twice } else { Fate::Sent };
    let Some((passed, recorder)) = trip_that_loses(0, udp(none, there), &Asked::new(Mode::PingPong, 64, 95)) else {
        return;
    };
    assert_eq!(passed.integrity, Integrity { duplicates: 10, ..Integrity::default() });
    assert_eq!(recorder.count(), 95);
}

#[test]
fn when_nothing_comes_back_it_is_given_up() {
    let keeper = Keeper::start().expect("a keeper");
    let me = Interruptible::this_thread().expect("a thread that can be interrupted");
    let asked = Asked::new(Mode::PingPong, 64, 100_000);
    let (outcome, recorder) = attempt(udp(|_| Fate::Lost, none), &asked, &keeper, &me);
    let Err(Failure::Impossible(no)) = outcome else { panic!("{outcome:?}") };
    assert!(no.why.contains("5 messages in a row") && no.remedy.is_some(), "{no:?}");
    assert_eq!(recorder.count(), 0);
}

#[test]
fn a_sender_that_keeps_to_a_depth_does_not_wait_for_what_is_lost() {
    // More in a row than may be in flight: the receiver cannot know of them.
    let there = |n| if (100..110).contains(&n) || n == 500 { Fate::Lost } else { Fate::Sent };
    let asked = Asked { depth: Some(4), ..Asked::new(Mode::Saturated, 64, 1_000) };
    let Some((passed, recorder)) = trip_that_loses(11, udp(none, there), &asked) else { return };
    assert_eq!(passed.integrity, Integrity { lost: 11, ..Integrity::default() });
    assert_eq!(recorder.count(), 1_000 - 11);
    assert!(passed.usage.elapsed_ns > 0);
}

#[test]
fn what_is_lost_at_the_end_costs_no_time() {
    let there = |n| if n >= WARMUP + 990 { Fate::Lost } else { Fate::Sent };
    // Few in flight, so that no other message is lost.
    let asked = Asked { depth: Some(50), ..Asked::new(Mode::Saturated, 64, 1_000) };
    let Some((passed, recorder)) = trip_that_loses(10, udp(none, there), &asked) else { return };
    assert_eq!((passed.integrity.lost, recorder.count()), (10, 990));
    assert!(passed.usage.elapsed_ns > 0 && passed.usage.cpu_ns.is_some(), "{:?}", passed.usage);
}
