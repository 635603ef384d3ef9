//! The stage: the thread on which the clock runs, and the rule that nothing else runs meanwhile.
//!
//! An experiment runs on a thread of its own, so that the conditions it asks for (real-time policy, affinity, slack) hold for
//! that thread alone. The thread that called [`perform`] sleeps in a channel, without a timeout, while the experiment
//! measures; between batches the experiment calls [`Stage::pause`], which hands the turn to the caller, lets it
//! draw, and takes the turn back. So there is no drawing thread that could disturb what it draws: the two never run at once.
//!
//! [`Stop::request`] ends an experiment early. It raises a flag that every wait looks at, interrupts the wait now under way with
//! a signal, and wakes the caller, which gives the experiment a second to come back. A call that cannot be
//! interrupted (`std::thread::sleep` of an hour) is then left behind: what was measured until its batch began is
//! reported all the same.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use punctual_linux as linux;
use punctual_linux::interrupt::{Interrupter, Interruptible};

/// How long an interrupted experiment may take to come back before it is left behind.
const PATIENCE: Duration = Duration::from_secs(1);

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
}

enum Event<R> {
    Turn(Turn),
    Stop,
    Done(std::thread::Result<R>),
}

/// A handle by which a run can be ended early, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<StopShared>,
}

#[derive(Default)]
struct StopShared {
    /// Interrupts the measuring thread, while there is one.
    interrupter: Mutex<Option<Interrupter>>,
    wake_caller: Mutex<Option<Box<dyn Fn() + Send>>>,
    reason: Mutex<Option<String>>,
}

impl std::fmt::Debug for StopShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StopShared").field("reason", &self.reason).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stop {
    /// Asks the run to end now; `reason` is the signal's name. Later requests change nothing.
    pub fn request(&self, reason: &str) {
        lock(&self.shared.reason).get_or_insert_with(|| reason.to_owned());
        linux::stop::request();
        if let Some(interrupter) = lock(&self.shared.interrupter).as_ref() {
            // The thread may just have ended: nothing is lost then.
            let _ = interrupter.interrupt();
        }
        if let Some(wake) = lock(&self.shared.wake_caller).as_ref() {
            wake();
        }
    }

    /// Why the run was asked to end, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        lock(&self.shared.reason).clone()
    }

    /// Whether the run was asked to end.
    #[must_use]
    pub fn requested(&self) -> bool {
        lock(&self.shared.reason).is_some()
    }
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
}

/// How a performance ended.
#[derive(Debug)]
pub enum Outcome<R> {
    /// The experiment returned.
    Done(R),
    /// It was asked to end and did not come back in time.
    LeftBehind,
}

/// Runs `experiment` on a thread of its own, with signals kept away from it, and shows `observer` how far it is.
///
/// # Panics
/// With the experiment's own panic, after its thread has put everything back.
pub fn perform<R: Send + 'static>(
    stop: &Stop,
    observer: &mut dyn Observer,
    experiment: impl FnOnce(&Stage) -> R + Send + 'static,
) -> std::io::Result<Outcome<R>> {
    let (events, inbox) = channel::<Event<R>>();
    let (turn, my_turn) = channel::<bool>();
    let waker = events.clone();
    *lock(&stop.shared.wake_caller) = Some(Box::new(move || {
        let _ = waker.send(Event::Stop);
    }));
    let shared = Arc::clone(&stop.shared);
    let thread = std::thread::Builder::new().name("measure".into()).spawn(move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _kept_away = linux::signal::block_all_signals_but(&[linux::interrupt::signal()]);
            let interruptible = Interruptible::this_thread().ok();
            *lock(&shared.interrupter) = interruptible.as_ref().map(Interruptible::interrupter);
            let to_caller = events.clone();
            let stage = Stage {
                hand_over: Box::new(move |turn| {
                    to_caller.send(Event::Turn(turn)).is_ok() && my_turn.recv().unwrap_or(false)
                }),
            };
            experiment(&stage)
        }));
        *lock(&shared.interrupter) = None;
        let _ = events.send(Event::Done(outcome));
    })?;
    let outcome = attend(stop, observer, &inbox, &turn);
    *lock(&stop.shared.wake_caller) = None;
    match outcome {
        Some(Ok(result)) => {
            drop(thread.join());
            Ok(Outcome::Done(result))
        }
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => Ok(Outcome::LeftBehind),
    }
}

/// The caller's side: draws when it has the turn, waits when it has not. `None`: the experiment was left behind.
fn attend<R>(
    stop: &Stop,
    observer: &mut dyn Observer,
    inbox: &Receiver<Event<R>>,
    turn: &Sender<bool>,
) -> Option<std::thread::Result<R>> {
    let mut give_up: Option<Instant> = stop.requested().then(|| Instant::now() + PATIENCE);
    loop {
        let event = match give_up {
            None => inbox.recv().ok()?,
            Some(at) => match inbox.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            },
        };
        match event {
            Event::Turn(why) => {
                match why {
                    Turn::Draw(progress) => observer.progress(&progress),
                    Turn::Say(line) => observer.line(&line),
                }
                let _ = turn.send(!stop.requested());
            }
            Event::Stop => give_up = give_up.or(Some(Instant::now() + PATIENCE)),
            Event::Done(outcome) => return Some(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
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
        let outcome = perform(&Stop::default(), &mut seen, |stage| (0..5).all(|i| stage.pause(at(f64::from(i)))));
        assert!(matches!(outcome, Ok(Outcome::Done(true))));
        assert_eq!(seen.0, [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_panic_on_the_stage_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| {
            let _ = perform(&Stop::default(), &mut Silent, |_| panic!("on stage"));
        });
        assert!(caught.is_err());
    }
}
