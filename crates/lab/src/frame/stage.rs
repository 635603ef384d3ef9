//! The stage: the thread on which the clock runs. No other thread of the program runs during a measurement.
//!
//! An experiment runs on a thread of its own. Its conditions (real-time policy, affinity, slack) hold for that
//! thread only. The thread that called `perform` sleeps in a channel, without a timeout, while the experiment
//! measures. Between batches the experiment calls [`Stage::pause`]: the caller draws, then returns control. The two
//! never run at once, so no drawing thread disturbs the measurement.
//!
//! [`Stop::request`] ends an experiment early. It sets a flag that every wait checks, interrupts the current wait
//! with a signal, and wakes the caller. A thread of higher priority may hold the experiment's CPU. An experiment that
//! does not return is then moved off it (`linux::sched`). A call that cannot be interrupted (`std::thread::sleep` of an
//! hour) is left behind. Everything measured before its batch is still reported.
//!
//! The experiment announces its duration ([`Stage::announce`]). After that time and a grace, the caller ends it in
//! the same way. The caller stays off the measured CPUs meanwhile (`Place`).

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched;
use punctual_linux::signal::Interruptible;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::places::{Aside, Place};
use super::progress::{Observer, Progress, Stop};

/// Time for an interrupted experiment to return before it is moved off its CPU. Most return within a millisecond.
const COMES_BACK: Duration = Duration::from_millis(250);
/// Time for an experiment that was moved before it is left behind.
const COMES_BACK_FREED: Duration = Duration::from_millis(350);
/// Time after the experiment for which its children may live. They then end by themselves, as a last resort.
const CHILDREN: Duration = Duration::from_secs(1);
/// Longest CPU time of a SCHED_FIFO or SCHED_RR thread of this process, or of its children, without a blocking
/// call. Then the kernel sends SIGXCPU (RLIMIT_RTTIME in getrlimit(2)), and later SIGKILL. The watchdog acts after
/// 1.2 s.
const RT_TIME: Duration = Duration::from_secs(5);
const RT_TIME_KILL: Duration = Duration::from_secs(6);

/// Why the experiment hands control to the caller.
enum HandOver {
    Draw(Progress),
    Say(String),
    Announce(Duration),
}

enum Event<R> {
    HandOver(HandOver),
    Stop,
    Done(std::thread::Result<R>),
}

/// The measuring thread's side of the stage.
pub(crate) struct Stage {
    hand_over: Box<dyn Fn(HandOver) -> bool + Send>,
}

impl Stage {
    /// Lets the caller draw, then returns. `false`: the run was asked to end.
    pub(crate) fn pause(&self, progress: Progress) -> bool {
        (self.hand_over)(HandOver::Draw(progress))
    }

    /// Lets the caller show a line, then returns. `false`: the run was asked to end.
    pub(crate) fn say(&self, line: String) -> bool {
        (self.hand_over)(HandOver::Say(line))
    }

    /// Announces how long the experiment takes from now on. It is ended after that time and the run's grace. A later
    /// announcement replaces an earlier one; without any, there is no limit. `false`: the run was asked to end.
    pub(crate) fn announce(&self, takes: Duration) -> bool {
        (self.hand_over)(HandOver::Announce(takes))
    }
}

/// Runs `experiment` on a thread of its own, with signals blocked, and reports its progress to `observer`. `grace`: how much
/// longer than announced it may take. Returns its result, and how much longer than announced it took. `None`: it was asked to end
/// and did not come back in time.
///
/// # Panics
/// With the experiment's own panic, after its thread has restored everything.
pub(crate) fn perform<R: Send + 'static>(
    stop: &Stop,
    observer: &mut dyn Observer,
    (place, grace): (&Place, Duration),
    experiment: impl FnOnce(&Stage) -> R + Send + 'static,
) -> std::io::Result<(Option<R>, Duration)> {
    limit_real_time();
    // Mapped before any child is started.
    linux::child::set_deadline(None);
    let mut aside = Aside::step(place, &stop.attendants());
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
                // The thread inherits its supervisor's CPUs. It sets only those that it may use.
                let _ = linux::sched::set_affinity(0, &cpus);
            }
            let _kept_away = linux::signal::block_all_signals_but(&[linux::signal::for_interrupting()]);
            let interruptible = Interruptible::this_thread().ok();
            interrupted.interrupts(interruptible.as_ref().map(Interruptible::interrupter));
            let to_caller = events.clone();
            let stage = Stage {
                hand_over: Box::new(move |what| {
                    to_caller.send(Event::HandOver(what)).is_ok() && my_turn.recv().unwrap_or(false)
                }),
            };
            experiment(&stage)
        }));
        interrupted.interrupts(None);
        let _ = events.send(Event::Done(outcome));
    })?;
    if place.real_time {
        aside.hurry();
    }
    let mut attendance = Attendance { stop, turn: &turn, grace, due: None };
    let outcome = attendance.attend(&inbox, observer);
    let overran = attendance.overran();
    stop.wakes_nobody();
    linux::child::set_deadline(None);
    drop(aside);
    match outcome {
        Some(Ok(result)) => {
            drop(thread.join());
            Ok((Some(result), overran))
        }
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => Ok((None, overran)),
    }
}

/// Lets the kernel limit every real-time thread of this process and its children for the rest of their lives. A lower
/// limit stays.
pub(crate) fn limit_real_time() {
    let us = |time: Duration| time.as_micros() as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Rttime);
    let maximum = maximum.unwrap_or(u64::MAX).min(us(RT_TIME_KILL));
    let current = current.unwrap_or(u64::MAX).min(us(RT_TIME)).min(maximum);
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(current), maximum: Some(maximum) });
}

/// The caller's side: draws when it has control, waits otherwise, and ends an experiment that does not end by itself.
struct Attendance<'a> {
    stop: &'a Stop,
    turn: &'a Sender<bool>,
    grace: Duration,
    due: Option<Instant>,
}

/// The stage of ending an experiment.
#[derive(Clone, Copy)]
enum Ending {
    /// No request to end.
    No,
    /// Asked to return; at this time it is moved off its CPU.
    Asked(Instant),
    /// Moved off its CPU; at this time it is left behind.
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
                Some(Event::HandOver(what)) => {
                    self.take(what, observer);
                    let _ = self.turn.send(!self.stop.requested() && !observer.has_enough());
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
                        sched::free_process(own, Some(linux::sched::current_thread_id()));
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

    fn take(&mut self, what: HandOver, observer: &mut dyn Observer) {
        match what {
            HandOver::Draw(progress) => observer.progress(&progress),
            HandOver::Say(line) => observer.line(&line),
            HandOver::Announce(takes) => {
                let takes = takes.saturating_add(self.grace);
                // A time beyond the clock's range is no limit.
                self.due = Instant::now().checked_add(takes);
                let children_ns = i64::try_from(takes.saturating_add(CHILDREN).as_nanos()).ok();
                linux::child::set_deadline(children_ns.and_then(|ns| now_ns(Clock::Monotonic).checked_add(ns)));
            }
        }
    }
}

/// The next event. `Some(None)`: none came in time. `None`: the channel is closed.
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
    use crate::frame::progress::Silent;

    const ANYWHERE: (&Place, Duration) = (&Place { cpus: Vec::new(), real_time: false }, Duration::ZERO);

    struct Counting(Vec<f64>);

    impl Observer for Counting {
        fn progress(&mut self, progress: &Progress) {
            self.0.push(progress.done);
        }
    }

    fn at(done: f64) -> Progress {
        Progress { doing: "testing".into(), detail: None, done, left: Duration::ZERO }
    }

    #[test]
    fn the_observer_sees_every_pause_in_order() {
        let mut seen = Counting(Vec::new());
        let outcome =
            perform(&Stop::default(), &mut seen, ANYWHERE, |stage| (0..5).all(|i| stage.pause(at(f64::from(i)))));
        assert_eq!(outcome.unwrap().0, Some(true));
        assert_eq!(seen.0, [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    /// A request to stop applies to the whole process, so each of these tests runs in one of its own.
    #[test]
    fn what_is_overdue_is_asked_to_come_back() {
        if !in_a_process_of_its_own("frame::stage::tests::what_is_overdue_is_asked_to_come_back") {
            return;
        }
        let stop = Stop::default();
        let performance = perform(&stop, &mut Silent, ANYWHERE, |stage| {
            let announced = stage.announce(Duration::from_millis(20));
            while !linux::stop::requested() {
                std::thread::yield_now();
            }
            (announced, stage.pause(at(1.0)))
        });
        assert_eq!(performance.unwrap().0, Some((true, false)));
        assert!(stop.overdue() && stop.requested() && stop.reason().is_none());
    }

    #[test]
    fn what_cannot_come_back_is_left_behind_and_what_announces_nothing_is_not_hurried() {
        let name =
            "frame::stage::tests::what_cannot_come_back_is_left_behind_and_what_announces_nothing_is_not_hurried";
        if !in_a_process_of_its_own(name) {
            return;
        }
        let stop = Stop::default();
        let unhurried = perform(&stop, &mut Silent, ANYWHERE, |_| {
            std::thread::sleep(Duration::from_millis(50));
        });
        assert!(unhurried.unwrap().0.is_some() && !stop.requested());
        let performance = perform(&stop, &mut Silent, ANYWHERE, |stage| {
            stage.announce(Duration::from_millis(20));
            // Continues after a signal.
            std::thread::sleep(Duration::from_secs(3600));
        });
        assert!(performance.unwrap().0.is_none());
        assert!(stop.overdue());
    }

    #[test]
    fn real_time_threads_are_bounded_by_the_kernel() {
        if !in_a_process_of_its_own("frame::stage::tests::real_time_threads_are_bounded_by_the_kernel") {
            return;
        }
        let limit = perform(&Stop::default(), &mut Silent, ANYWHERE, |_| getrlimit(Resource::Rttime));
        let limit = limit.unwrap().0.expect("it comes back");
        assert!(limit.current.is_some_and(|us| us <= 5_000_000) && limit.maximum.is_some_and(|us| us <= 6_000_000));
    }

    #[test]
    fn a_panic_on_the_stage_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            let _ = perform(&Stop::default(), &mut Silent, ANYWHERE, |_| panic!("on stage"));
        });
        assert!(caught.is_err());
    }
}
