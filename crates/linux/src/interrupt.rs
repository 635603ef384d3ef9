//! Interrupts a thread that waits in a system call, from another thread: the call ends with EINTR.
//!
//! To cut a long wait, request the stop ([`crate::stop`]), then interrupt the thread.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::own_signal::{self, Action, Handler};
use crate::{Result, check};

/// Makes the calling thread interruptible. A signal handler is installed while this or an [`Interrupter`] exists.
#[derive(Debug)]
pub struct Interruptible {
    interrupter: Interrupter,
    bound_to_thread: PhantomData<*const ()>,
}

/// Interrupts one thread.
#[derive(Debug, Clone)]
pub struct Interrupter {
    thread: libc::pid_t,
    _handler: Arc<Handler>,
}

/// The signal; an interruptible thread must not block it.
#[must_use]
pub fn signal() -> i32 {
    own_signal::for_interrupting()
}

impl Interruptible {
    /// `sigaction(2)`: a handler that does nothing, without `SA_RESTART`; and `gettid(2)`.
    pub fn this_thread() -> Result<Self> {
        let handler = Arc::new(Handler::install(signal(), Action::Interrupt)?);
        // SAFETY: no arguments.
        let thread = unsafe { libc::gettid() };
        Ok(Self { interrupter: Interrupter { thread, _handler: handler }, bound_to_thread: PhantomData })
    }

    /// The handle that interrupts this thread, for another one.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }
}

impl Interrupter {
    /// `tgkill(2)`. ESRCH: the thread has ended.
    pub fn interrupt(&self) -> Result<()> {
        // SAFETY: takes numbers; the handler is installed, so the signal ends nothing but a call.
        let returned = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, signal()) };
        check("tgkill", returned as i32).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleep;
    use crate::sleep::Ended;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sleep_of_an_hour_ends() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let me = Interruptible::this_thread().unwrap();
        let interrupter = me.interrupter();
        // Repeatedly: the first signal may come before the sleep begins.
        let other = std::thread::spawn(move || {
            while !DONE.load(Ordering::Relaxed) {
                interrupter.interrupt().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(sleep::nanosleep(3_600_000_000_000).unwrap(), Ended::Sooner);
        DONE.store(true, Ordering::Relaxed);
        other.join().unwrap();
    }
}
