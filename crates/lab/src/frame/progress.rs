//! How a run and its caller talk: its progress and who sees it ([`Observer`]), and the request to end it early
//! ([`Stop`]), by a signal or because its announced time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::signal::Interrupter;
use punctual_record::Run;

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

/// Shows the progress of an experiment as that of the run.
pub(crate) struct OfRun<'o> {
    pub(crate) observer: &'o mut dyn Observer,
    pub(crate) portion: Portion,
    /// The run so far, for an observer that takes it.
    pub(crate) so_far: Option<&'o dyn Fn() -> Run>,
}

impl Observer for OfRun<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(&self.portion.of_run(progress));
        if let Some(run) = self.so_far {
            self.observer.so_far(run);
        }
    }

    fn has_enough(&self) -> bool {
        self.observer.has_enough()
    }

    fn line(&mut self, text: &str) {
        self.observer.line(text);
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

/// A handle that ends a run early, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<StopShared>,
}

#[derive(Default)]
struct StopShared {
    /// Interrupts the measuring thread, if there is one.
    interrupter: Mutex<Option<Interrupter>>,
    wake_caller: Mutex<Option<Box<dyn Fn() + Send>>>,
    reason: Mutex<Option<String>>,
    overdue: AtomicBool,
    /// Supervising threads: they stay off the measured CPUs.
    attendants: Mutex<Vec<i32>>,
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
    /// Asks the run to end now. `reason` is the signal's name. Later requests have no effect.
    pub fn request(&self, reason: &str) {
        lock(&self.shared.reason).get_or_insert_with(|| reason.to_owned());
        self.interrupt();
        if let Some(wake) = lock(&self.shared.wake_caller).as_ref() {
            wake();
        }
    }

    /// Ends the run because its announced time is over.
    pub(crate) fn expire(&self) {
        self.shared.overdue.store(true, Ordering::Release);
        self.interrupt();
    }

    /// Interrupts the current wait, if there is one.
    pub(crate) fn interrupt(&self) {
        linux::stop::request();
        if let Some(interrupter) = lock(&self.shared.interrupter).as_ref() {
            // An error means that the thread has just ended: harmless.
            let _ = interrupter.interrupt();
        }
    }

    /// Registers the calling thread as one that passes on requests. It stays off the measured CPUs during an
    /// experiment, so that it can always do so.
    pub fn attend_from_this_thread(&self) {
        lock(&self.shared.attendants).push(linux::sched::current_thread_id());
    }

    /// Calls `wake` at every later request until an experiment begins, for waits before it. For earlier requests see
    /// [`Stop::requested`].
    pub fn wake_by(&self, wake: impl Fn() + Send + 'static) {
        *lock(&self.shared.wake_caller) = Some(Box::new(wake));
    }

    /// From now on requests interrupt this thread. `None`: no thread.
    pub(crate) fn interrupts(&self, thread: Option<Interrupter>) {
        *lock(&self.shared.interrupter) = thread;
    }

    /// From now on requests wake no thread.
    pub(crate) fn wakes_nobody(&self) {
        *lock(&self.shared.wake_caller) = None;
    }

    /// The threads that called [`Stop::attend_from_this_thread`].
    pub(crate) fn attendants(&self) -> Vec<i32> {
        lock(&self.shared.attendants).clone()
    }

    /// The reason for the request to end, if any.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        lock(&self.shared.reason).clone()
    }

    /// Whether the run was ended because it took longer than announced.
    #[must_use]
    pub fn overdue(&self) -> bool {
        self.shared.overdue.load(Ordering::Acquire)
    }

    /// Whether the run was asked to end, or is overdue.
    #[must_use]
    pub fn requested(&self) -> bool {
        lock(&self.shared.reason).is_some() || self.overdue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
