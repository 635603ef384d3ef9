//! The stage: the thread on which the clock runs, and the rule that nothing else runs meanwhile.
//!
//! An experiment runs on a thread of its own, so that the conditions it asks for (real-time policy, affinity, slack) hold for
//! that thread alone. The thread that called [`perform`] sleeps in a channel, without a timeout, while the experiment
//! measures; between batches the experiment calls [`Stage::pause`], which hands the turn to the caller, lets it
//! draw, and takes the turn back. So there is no drawing thread that could disturb what it draws: the two never run at once.
//!
//! [`Stop::request`] ends an experiment early. It raises a flag that every wait looks at, interrupts the wait now under way with
//! a signal, and wakes the caller. An experiment that does not come back is freed from its CPU, which a thread of higher priority may
//! hold ([`rescue`]). A call that cannot be interrupted (`std::thread::sleep` of an hour) is then left behind: what was measured
//! until its batch began is reported all the same.
//!
//! The experiment announces how long it takes ([`Stage::announce`]). When that time and a grace are over, the caller ends it in the same way.
//! The caller stays on other CPUs than the measured ones meanwhile ([`Place`]).

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::interrupt::Interruptible;
use punctual_linux::rescue;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::place::{Aside, Place};
pub use crate::stop::Stop;

/// How long an interrupted experiment may take to come back before it is freed from its CPU. Most come back within a millisecond.
const COMES_BACK: Duration = Duration::from_millis(250);
/// How long one that was freed may take before it is left behind.
const COMES_BACK_FREED: Duration = Duration::from_millis(350);
/// How much longer than the experiment its children may live: they end by themselves then, should all else fail.
const CHILDREN: Duration = Duration::from_secs(1);
/// CPU time that a SCHED_FIFO or SCHED_RR thread of this process, or of its children, may use without a blocking call before the kernel sends SIGXCPU
/// (RLIMIT_RTTIME in getrlimit(2)), and then SIGKILL. The watchdog acts after 1.2 s.
const RT_TIME: Duration = Duration::from_secs(5);
const RT_TIME_KILL: Duration = Duration::from_secs(6);

/// How far an experiment is; told while no clock runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is measured next, in words.
    pub doing: String,
    /// How much is done, 0 to 1.
    pub done: f64,
    /// How long it will still take, as far as can be told.
    pub left: Duration,
}

/// Somebody who wants to know how far an experiment is.
pub trait Observer {
    /// Called on the caller's thread, between two batches of measurements, never during one.
    fn progress(&mut self, progress: &Progress);

    /// A line that the experiment has to say while it goes on. Called as [`Observer::progress`] is.
    fn line(&mut self, _text: &str) {}

    /// Nothing more comes.
    fn finish(&mut self) {}
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// What the experiment hands the turn over for.
enum Turn {
    Draw(Progress),
    Say(String),
    Announce(Duration),
}

enum Event<R> {
    Turn(Turn),
    Stop,
    Done(std::thread::Result<R>),
}

/// The measuring thread's side of the stage.
pub struct Stage {
    hand_over: Box<dyn Fn(Turn) -> bool + Send>,
}

impl Stage {
    /// Lets the caller draw, then returns. `false`: the run was asked to end.
    pub fn pause(&self, progress: Progress) -> bool {
        (self.hand_over)(Turn::Draw(progress))
    }

    /// Lets the caller show a line, then returns. `false`: the run was asked to end.
    pub fn say(&self, line: String) -> bool {
        (self.hand_over)(Turn::Say(line))
    }

    /// Says how long the experiment takes from now on. It is ended when that time and the run's grace are over; a later announcement
    /// replaces an earlier one, and without any the experiment takes as long as it takes. `false`: the run was asked to end.
    pub fn announce(&self, takes: Duration) -> bool {
        (self.hand_over)(Turn::Announce(takes))
    }
}

/// How a performance ended.
#[derive(Debug)]
pub enum Outcome<R> {
    /// The experiment returned.
    Done(R),
    /// It was asked to end and did not come back in time.
    LeftBehind,
}

/// A performance that is over.
#[derive(Debug)]
pub struct Performance<R> {
    /// How it ended.
    pub outcome: Outcome<R>,
    /// How much longer it took than announced.
    pub overran: Duration,
}

/// How an experiment is to be supervised.
#[derive(Debug, Clone, Default)]
pub struct Supervision {
    /// Where it measures.
    pub place: Place,
    /// How much longer than announced it may take.
    pub grace: Duration,
}

/// Runs `experiment` on a thread of its own, with signals kept away from it, and shows `observer` how far it is.
///
/// # Panics
/// With the experiment's own panic, after its thread has put everything back.
pub fn perform<R: Send + 'static>(
    stop: &Stop,
    observer: &mut dyn Observer,
    supervision: &Supervision,
    experiment: impl FnOnce(&Stage) -> R + Send + 'static,
) -> std::io::Result<Performance<R>> {
    limit_real_time();
    // Mapped before any child is started.
    linux::deadline::set(None);
    let mut aside = Aside::step(&supervision.place, &stop.attendants());
    let cpus = aside.of_a_measuring_thread();
    let (events, inbox) = channel::<Event<R>>();
    let (turn, my_turn) = channel::<bool>();
    let waker = events.clone();
    stop.wake_by(move || {
        let _ = waker.send(Event::Stop);
    });
    let interrupted = stop.clone();
    let thread = std::thread::Builder::new().name("measure".into()).spawn(move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if !cpus.is_empty() {
                // The thread inherited the CPUs of its supervisor. What it may not use it does not ask for.
                let _ = linux::affinity::set_affinity(0, &cpus);
            }
            let _kept_away = linux::signal::block_all_signals_but(&[linux::interrupt::signal()]);
            let interruptible = Interruptible::this_thread().ok();
            interrupted.interrupts(interruptible.as_ref().map(Interruptible::interrupter));
            let to_caller = events.clone();
            let stage = Stage {
                hand_over: Box::new(move |turn| {
                    to_caller.send(Event::Turn(turn)).is_ok() && my_turn.recv().unwrap_or(false)
                }),
            };
            experiment(&stage)
        }));
        interrupted.interrupts(None);
        let _ = events.send(Event::Done(outcome));
    })?;
    if supervision.place.real_time {
        aside.hurry();
    }
    let mut attendance = Attendance { stop, turn: &turn, grace: supervision.grace, due: None };
    let outcome = attendance.attend(&inbox, observer);
    let overran = attendance.overran();
    stop.wakes_nobody();
    linux::deadline::set(None);
    drop(aside);
    match outcome {
        Some(Ok(result)) => {
            drop(thread.join());
            Ok(Performance { outcome: Outcome::Done(result), overran })
        }
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => Ok(Performance { outcome: Outcome::LeftBehind, overran }),
    }
}

/// Bounds every real-time thread of this process and its children by the kernel, for the rest of their lives. A limit that is lower already stays.
fn limit_real_time() {
    let us = |time: Duration| time.as_micros() as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Rttime);
    let maximum = maximum.unwrap_or(u64::MAX).min(us(RT_TIME_KILL));
    let current = current.unwrap_or(u64::MAX).min(us(RT_TIME)).min(maximum);
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(current), maximum: Some(maximum) });
}

/// The caller's side: draws when it has the turn, waits when it has not, and ends what does not end by itself.
struct Attendance<'a> {
    stop: &'a Stop,
    turn: &'a Sender<bool>,
    grace: Duration,
    due: Option<Instant>,
}

/// How far the end of an experiment is.
#[derive(Clone, Copy)]
enum Ending {
    /// Nobody asked for it.
    No,
    /// Asked to come back; at this time it is freed from its CPU.
    Asked(Instant),
    /// Freed; at this time it is left behind.
    Freed(Instant),
}

impl Attendance<'_> {
    /// `None`: the experiment was left behind.
    fn attend<R>(&mut self, inbox: &Receiver<Event<R>>, observer: &mut dyn Observer) -> Option<std::thread::Result<R>> {
        let asked = || Ending::Asked(Instant::now() + COMES_BACK);
        let mut ending = if self.stop.requested() { asked() } else { Ending::No };
        loop {
            let until = match ending {
                Ending::No => self.due,
                Ending::Asked(at) | Ending::Freed(at) => Some(at),
            };
            match next(inbox, until)? {
                Some(Event::Turn(turn)) => {
                    self.take(turn, observer);
                    let _ = self.turn.send(!self.stop.requested());
                }
                Some(Event::Stop) if matches!(ending, Ending::No) => ending = asked(),
                Some(Event::Stop) => {}
                Some(Event::Done(outcome)) => return Some(outcome),
                None => match ending {
                    Ending::No => {
                        self.stop.expire();
                        ending = asked();
                    }
                    Ending::Asked(_) => {
                        let own = std::process::id() as i32;
                        rescue::free_process(own, Some(linux::sched::current_thread_id()));
                        self.stop.interrupt();
                        ending = Ending::Freed(Instant::now() + COMES_BACK_FREED);
                    }
                    Ending::Freed(_) => return None,
                },
            }
        }
    }

    fn overran(&self) -> Duration {
        let over = self.due.and_then(|due| (Instant::now() + self.grace).checked_duration_since(due));
        over.unwrap_or_default()
    }

    fn take(&mut self, turn: Turn, observer: &mut dyn Observer) {
        match turn {
            Turn::Draw(progress) => observer.progress(&progress),
            Turn::Say(line) => observer.line(&line),
            Turn::Announce(takes) => {
                let takes = takes.saturating_add(self.grace);
                // Beyond what a clock can hold nothing is due.
                self.due = Instant::now().checked_add(takes);
                let children_ns = i64::try_from(takes.saturating_add(CHILDREN).as_nanos()).ok();
                linux::deadline::set(children_ns.and_then(|ns| now_ns(Clock::Monotonic).checked_add(ns)));
            }
        }
    }
}

/// The next event; `Some(None)`: none came in time. `None`: none can come any more.
fn next<R>(inbox: &Receiver<Event<R>>, until: Option<Instant>) -> Option<Option<Event<R>>> {
    let Some(at) = until else { return inbox.recv().ok().map(Some) };
    match inbox.recv_timeout(at.saturating_duration_since(Instant::now())) {
        Ok(event) => Some(Some(event)),
        Err(RecvTimeoutError::Timeout) => Some(None),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

#[cfg(test)]
mod tests {
    use punctual_testing::in_a_process_of_its_own;

    use super::*;

    struct Counting(Vec<f64>);

    impl Observer for Counting {
        fn progress(&mut self, progress: &Progress) {
            self.0.push(progress.done);
        }
    }

    fn at(done: f64) -> Progress {
        Progress { doing: "testing".into(), done, left: Duration::ZERO }
    }

    #[test]
    fn the_observer_sees_every_pause_in_order() {
        let mut seen = Counting(Vec::new());
        let outcome = perform(&Stop::default(), &mut seen, &Supervision::default(), |stage| {
            (0..5).all(|i| stage.pause(at(f64::from(i))))
        });
        assert!(matches!(outcome.unwrap().outcome, Outcome::Done(true)));
        assert_eq!(seen.0, [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    /// A request to stop is the process's: each in one of its own.
    #[test]
    fn what_is_overdue_is_asked_to_come_back() {
        if !in_a_process_of_its_own("stage::tests::what_is_overdue_is_asked_to_come_back") {
            return;
        }
        let stop = Stop::default();
        let performance = perform(&stop, &mut Silent, &Supervision::default(), |stage| {
            let announced = stage.announce(Duration::from_millis(20));
            while !linux::stop::requested() {
                std::thread::yield_now();
            }
            (announced, stage.pause(at(1.0)))
        });
        let performance = performance.unwrap();
        assert!(matches!(performance.outcome, Outcome::Done((true, false))), "{performance:?}");
        assert!(stop.overdue() && stop.requested() && stop.reason().is_none());
    }

    #[test]
    fn what_cannot_come_back_is_left_behind_and_what_announces_nothing_is_not_hurried() {
        let name = "stage::tests::what_cannot_come_back_is_left_behind_and_what_announces_nothing_is_not_hurried";
        if !in_a_process_of_its_own(name) {
            return;
        }
        let stop = Stop::default();
        let unhurried = perform(&stop, &mut Silent, &Supervision::default(), |_| {
            std::thread::sleep(Duration::from_millis(50));
        });
        assert!(matches!(unhurried.unwrap().outcome, Outcome::Done(())) && !stop.requested());
        let performance = perform(&stop, &mut Silent, &Supervision::default(), |stage| {
            stage.announce(Duration::from_millis(20));
            // Goes on after a signal.
            std::thread::sleep(Duration::from_secs(3600));
        });
        assert!(matches!(performance.unwrap().outcome, Outcome::LeftBehind));
        assert!(stop.overdue());
    }

    #[test]
    fn real_time_threads_are_bounded_by_the_kernel() {
        if !in_a_process_of_its_own("stage::tests::real_time_threads_are_bounded_by_the_kernel") {
            return;
        }
        let limit = perform(&Stop::default(), &mut Silent, &Supervision::default(), |_| getrlimit(Resource::Rttime));
        let Outcome::Done(limit) = limit.unwrap().outcome else { panic!("it comes back") };
        assert!(limit.current.is_some_and(|us| us <= 5_000_000) && limit.maximum.is_some_and(|us| us <= 6_000_000));
    }

    #[test]
    fn a_panic_on_the_stage_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            let _ = perform(&Stop::default(), &mut Silent, &Supervision::default(), |_| panic!("on stage"));
        });
        assert!(caught.is_err());
    }
}
