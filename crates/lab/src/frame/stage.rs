//! The stage: the thread on which the clock runs. No other thread of the program runs during a measurement.
//!
//! An experiment runs on a thread of its own. Its conditions (real-time policy, affinity, slack) hold for that
//! thread only. The thread that called `perform` sleeps in a channel, without a timeout, while the experiment
//! measures. Between batches the experiment calls [`Stage::pause`]: the caller draws, then returns control. The two
//! never run at once, so no drawing thread disturbs the measurement. An [`Observer`] sees the progress.
//!
//! [`Stop::request`] ends an experiment early. It sets a flag that every wait checks, interrupts the current wait
//! with a signal, and wakes the caller. A thread of higher priority may hold the experiment's CPU. An experiment that
//! does not return is then moved off it (`linux::sched`). A call that cannot be interrupted (`std::thread::sleep` of an
//! hour) is left behind. Everything measured before its batch is still reported.
//!
//! The experiment announces its duration ([`Stage::announce`]). After that time and a grace, the caller ends it in
//! the same way. The caller stays off the measured CPUs meanwhile (`Place`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched;
use punctual_linux::signal::{Interrupter, Interruptible};
use punctual_record::Run;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::places::{Aside, Place};

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

/// Runs `experiment` on a thread of its own, with signals blocked, and reports its progress to the observer of the run. `grace`: how much
/// longer than announced it may take. Returns its result, and how much longer than announced it took. `None`: it was asked to end
/// and did not come back in time.
///
/// # Panics
/// With the experiment's own panic, after its thread has restored everything.
pub(crate) fn perform<R: Send + 'static>(
    stop: &Stop,
    of_run: &mut OfRun<'_>,
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
    let outcome = attendance.attend(&inbox, of_run);
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
    fn attend<R>(&mut self, inbox: &Receiver<Event<R>>, of_run: &mut OfRun<'_>) -> Option<std::thread::Result<R>> {
        let asked = || Ending::Asked(Instant::now() + COMES_BACK);
        let mut ending = if self.stop.requested() { asked() } else { Ending::No };
        loop {
            let until = match ending {
                Ending::No => self.due,
                Ending::Asked(at) | Ending::Freed(at) => Some(at),
            };
            match next(inbox, until)? {
                Some(Event::HandOver(what)) => {
                    self.take(what, of_run);
                    let _ = self.turn.send(!self.stop.requested() && !of_run.observer.has_enough());
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

    fn take(&mut self, what: HandOver, of_run: &mut OfRun<'_>) {
        match what {
            HandOver::Draw(progress) => of_run.progress(&progress),
            HandOver::Say(line) => of_run.observer.line(&line),
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

/// The progress of an experiment, reported while no clock runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The next measurement, in words.
    pub doing: String,
    /// A part of it, or what it has shown so far, in words.
    pub detail: Option<String>,
    /// The part done, 0 to 1.
    pub done: f64,
    /// Estimated time left.
    pub left: Duration,
}

/// The part of a run that an experiment is. The default is the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Duration of the experiments before it.
    pub before: Duration,
    /// Its duration.
    pub takes: Duration,
    /// Duration of the experiments after it.
    pub after: Duration,
}

impl Portion {
    /// The progress of the run, from that of the experiment.
    fn of_run(&self, progress: &Progress) -> Progress {
        let whole = (self.before + self.takes + self.after).as_secs_f64();
        let done = match whole > 0.0 {
            true => (self.before.as_secs_f64() + self.takes.as_secs_f64() * progress.done.clamp(0.0, 1.0)) / whole,
            false => progress.done,
        };
        Progress { done, left: progress.left.saturating_add(self.after), ..progress.clone() }
    }
}

/// Receives the progress of an experiment.
pub trait Observer {
    /// Called on the caller's thread, between two batches of measurements, never during one.
    fn progress(&mut self, progress: &Progress);

    /// Whether it takes the run so far.
    fn takes_runs(&self) -> bool {
        false
    }

    /// The run so far, with the figures of the current experiment. Called under the same conditions as [`Observer::progress`].
    fn so_far(&mut self, _run: &dyn Fn() -> Run) {}

    /// Whether the run shows enough: an experiment that can end early then does, and the run is complete.
    fn has_enough(&self) -> bool {
        false
    }

    /// A line of output from the experiment. Called under the same conditions as [`Observer::progress`].
    fn line(&mut self, _text: &str) {}

    /// A warning that cannot wait for the report. Called before an experiment starts.
    fn warn(&mut self, _text: &str) {}

    /// Called once at the end.
    fn finish(&mut self) {}
}

/// An observer of a run, of which the experiment is a portion.
pub(crate) struct OfRun<'o> {
    pub(crate) observer: &'o mut dyn Observer,
    pub(crate) portion: Portion,
    /// The run so far, for an observer that takes it.
    pub(crate) so_far: Option<&'o dyn Fn() -> Run>,
}

impl OfRun<'_> {
    /// Shows the progress of the experiment as that of the run.
    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(&self.portion.of_run(progress));
        if let Some(run) = self.so_far {
            self.observer.so_far(run);
        }
    }
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
}

/// Whether to continue after an interruption: EINTR if the process wants to stop.
#[inline]
pub(crate) fn go_on(call: &'static str) -> linux::Result<()> {
    if linux::stop::requested() { Err(linux::Error::from_errno(call, linux::EINTR)) } else { Ok(()) }
}

/// What two threads share, the measuring one and the reporting one.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Locks the contents. A panic in another thread does not make them unreadable.
    pub(crate) fn open(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the contents and leaves the default.
    pub(crate) fn take(&self) -> T
    where
        T: Default,
    {
        self.replace(T::default())
    }

    /// Takes the contents and leaves others of the same size: a thread that is left behind still writes there.
    pub(crate) fn replace(&self, with: T) -> T {
        std::mem::replace(&mut *self.open(), with)
    }
}

/// A handle that ends a run early, from any thread.
#[derive(Clone, Default)]
pub struct Stop {
    /// Interrupts the measuring thread, if there is one.
    interrupter: Shared<Option<Interrupter>>,
    wake_caller: Shared<Option<Box<dyn Fn() + Send>>>,
    reason: Shared<Option<String>>,
    overdue: Arc<AtomicBool>,
    /// Supervising threads: they stay off the measured CPUs.
    attendants: Shared<Vec<i32>>,
}

impl Stop {
    /// Asks the run to end now. `reason` is the signal's name. Later requests have no effect.
    pub fn request(&self, reason: &str) {
        self.reason.open().get_or_insert_with(|| reason.to_owned());
        self.interrupt();
        if let Some(wake) = self.wake_caller.open().as_ref() {
            wake();
        }
    }

    /// Ends the run because its announced time is over.
    fn expire(&self) {
        self.overdue.store(true, Ordering::Release);
        self.interrupt();
    }

    /// Interrupts the current wait, if there is one.
    pub(crate) fn interrupt(&self) {
        linux::stop::request();
        if let Some(interrupter) = self.interrupter.open().as_ref() {
            // An error means that the thread has just ended: harmless.
            let _ = interrupter.interrupt();
        }
    }

    /// Registers the calling thread as one that passes on requests. It stays off the measured CPUs during an
    /// experiment, so that it can always do so.
    pub fn attend_from_this_thread(&self) {
        self.attendants.open().push(linux::sched::current_thread_id());
    }

    /// Calls `wake` at every later request until an experiment begins, for waits before it. For earlier requests see
    /// [`Stop::requested`].
    pub fn wake_by(&self, wake: impl Fn() + Send + 'static) {
        *self.wake_caller.open() = Some(Box::new(wake));
    }

    /// From now on requests interrupt this thread. `None`: no thread.
    pub(crate) fn interrupts(&self, thread: Option<Interrupter>) {
        *self.interrupter.open() = thread;
    }

    /// From now on requests wake no thread.
    fn wakes_nobody(&self) {
        *self.wake_caller.open() = None;
    }

    /// The threads that called [`Stop::attend_from_this_thread`].
    fn attendants(&self) -> Vec<i32> {
        self.attendants.open().clone()
    }

    /// The reason for the request to end, if any.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.reason.open().clone()
    }

    /// Whether the run was ended because it took longer than announced.
    pub(crate) fn overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Whether the run was asked to end, or is overdue.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.reason.open().is_some() || self.overdue()
    }
}

#[cfg(test)]
mod tests {
    use punctual_testing::in_a_process_of_its_own;

    use super::*;

    const ANYWHERE: (&Place, Duration) = (&Place { cpus: Vec::new(), real_time: false }, Duration::ZERO);

    struct Counting(Vec<f64>);

    impl Observer for Counting {
        fn progress(&mut self, progress: &Progress) {
            self.0.push(progress.done);
        }
    }

    fn whole(observer: &mut dyn Observer) -> OfRun<'_> {
        OfRun { observer, portion: Portion::default(), so_far: None }
    }

    fn at(done: f64) -> Progress {
        Progress { doing: "testing".into(), detail: None, done, left: Duration::ZERO }
    }

    #[test]
    fn the_observer_sees_every_pause_in_order() {
        let mut seen = Counting(Vec::new());
        let outcome = perform(&Stop::default(), &mut whole(&mut seen), ANYWHERE, |stage| {
            (0..5).all(|i| stage.pause(at(f64::from(i))))
        });
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
        let performance = perform(&stop, &mut whole(&mut Silent), ANYWHERE, |stage| {
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
        let unhurried = perform(&stop, &mut whole(&mut Silent), ANYWHERE, |_| {
            std::thread::sleep(Duration::from_millis(50));
        });
        assert!(unhurried.unwrap().0.is_some() && !stop.requested());
        let performance = perform(&stop, &mut whole(&mut Silent), ANYWHERE, |stage| {
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
        let limit = perform(&Stop::default(), &mut whole(&mut Silent), ANYWHERE, |_| getrlimit(Resource::Rttime));
        let limit = limit.unwrap().0.expect("it comes back");
        assert!(limit.current.is_some_and(|us| us <= 5_000_000) && limit.maximum.is_some_and(|us| us <= 6_000_000));
    }

    #[test]
    fn a_panic_on_the_stage_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            let _ = perform(&Stop::default(), &mut whole(&mut Silent), ANYWHERE, |_| panic!("on stage"));
        });
        assert!(caught.is_err());
    }

    #[test]
    fn the_parts_of_a_run_have_one_progress() {
        let s = Duration::from_secs;
        let (first, last) = (
            Portion { takes: s(6), after: s(2), ..Portion::default() },
            Portion { before: s(6), takes: s(2), after: s(0) },
        );
        let seen = |portion: Portion, done, left| {
            let seen = portion.of_run(&Progress { doing: String::new(), detail: None, done, left: s(left) });
            (seen.done, seen.left)
        };
        assert_eq!(seen(first, 0.5, 3), (0.375, s(5)));
        assert_eq!(seen(first, 1.0, 0), (0.75, s(2)));
        assert_eq!(seen(last, 0.0, 2), (0.75, s(2)));
        assert_eq!(seen(last, 1.0, 0), (1.0, s(0)));
        assert_eq!(seen(Portion::default(), 0.5, 3), (0.5, s(3)), "a run of one part");
    }
}
