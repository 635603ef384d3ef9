//! A request to end a run early: by a signal, or because its announced time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_linux as linux;
use punctual_linux::interrupt::Interrupter;

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
