//! The wish that a run ends before its time: by a signal, or because its announced time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_linux as linux;
use punctual_linux::interrupt::Interrupter;

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
    overdue: AtomicBool,
    /// Threads that take part in supervising: they stay off the measured CPUs.
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
    /// Asks the run to end now; `reason` is the signal's name. Later requests change nothing.
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

    /// Interrupts the wait under way, if there is one.
    pub(crate) fn interrupt(&self) {
        linux::stop::request();
        if let Some(interrupter) = lock(&self.shared.interrupter).as_ref() {
            // The thread may just have ended: nothing is lost then.
            let _ = interrupter.interrupt();
        }
    }

    /// The calling thread hands requests on: while an experiment runs it stays off the measured CPUs, so that it can always do so.
    pub fn attend_from_this_thread(&self) {
        lock(&self.shared.attendants).push(linux::sched::current_thread_id());
    }

    /// Calls `wake` at every later request, until an experiment begins: for waits before it. [`Stop::requested`] knows of earlier ones.
    pub fn wake_by(&self, wake: impl Fn() + Send + 'static) {
        *lock(&self.shared.wake_caller) = Some(Box::new(wake));
    }

    /// From now on requests interrupt this thread; `None`: none.
    pub(crate) fn interrupts(&self, thread: Option<Interrupter>) {
        *lock(&self.shared.interrupter) = thread;
    }

    /// Requests wake nobody any more.
    pub(crate) fn wakes_nobody(&self) {
        *lock(&self.shared.wake_caller) = None;
    }

    /// The threads that called [`Stop::attend_from_this_thread`].
    pub(crate) fn attendants(&self) -> Vec<i32> {
        lock(&self.shared.attendants).clone()
    }

    /// Why the run was asked to end, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        lock(&self.shared.reason).clone()
    }

    /// Whether the run took longer than it had announced, and was ended for it.
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
