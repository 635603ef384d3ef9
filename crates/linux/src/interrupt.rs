//! Ending another thread's blocking call: a signal that does nothing but interrupt.
//!
//! SIGURG is used because its default action is to be ignored: one that arrives when nobody listens any more does no harm.

use std::mem::MaybeUninit;
use std::ptr;

use crate::signal::{BlockedSignals, block_all_signals_for_this_thread, send_signal_to_thread};
use crate::{Result, check, check_errno_return};

const SIGNAL: i32 = libc::SIGURG;

/// A thread that no signal reaches but the one of [`interrupt_thread`]. Dropping it brings the thread's signal mask back.
#[derive(Debug)]
pub struct Interruptible {
    _mask: BlockedSignals,
}

extern "C" fn do_nothing(_: i32) {}

impl Interruptible {
    /// `pthread_sigmask(3)`, `sigaction(2)`: keeps all signals but the interrupting one away from the calling thread, and gives that one
    /// a handler that does nothing. The handler stays: without it a late signal would be ignored all the same.
    pub fn this_thread() -> Result<Self> {
        let mask = block_all_signals_for_this_thread()?;
        let mut blank = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero is a valid sigaction: no handler, no flags (in particular no SA_RESTART), an empty mask.
        let action = unsafe {
            (*blank.as_mut_ptr()).sa_sigaction = do_nothing as *const () as usize;
            blank.assume_init()
        };
        // SAFETY: `action` is a valid sigaction whose handler is async-signal-safe.
        check("sigaction", unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) })?;
        let mut only = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `only` is a writable sigset_t, initialised by sigemptyset before it is used.
        let blocked = unsafe {
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), SIGNAL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut())
        };
        check_errno_return("pthread_sigmask", blocked)?;
        Ok(Self { _mask: mask })
    }
}

/// `tgkill(2)`: interrupts the blocking call that thread `tid` of this process is in, if it is [`Interruptible`].
pub fn interrupt_thread(tid: i32) -> Result<()> {
    send_signal_to_thread(tid, SIGNAL)
//! Interrupting a thread that waits in a system call, from another thread: the call ends with EINTR.
//!
//! Together with [`crate::stop`] this is how a long wait is cut: request the stop, then interrupt the thread.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::own_signal::{self, Action, Handler};
use crate::{Result, check};

/// The calling thread, made interruptible. A signal handler is installed as long as this or an [`Interrupter`] exists.
#[derive(Debug)]
pub struct Interruptible {
    interrupter: Interrupter,
    bound_to_thread: PhantomData<*const ()>,
}

/// Interrupts the thread that it was made for.
#[derive(Debug, Clone)]
pub struct Interrupter {
    thread: libc::pid_t,
    _handler: Arc<Handler>,
}

/// The signal that is used: a thread that is to be interrupted must not block it.
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

    /// What interrupts this thread; give it to another one.
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
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_blocking_call_is_interrupted() {
        let (tell, told) = channel();
        let sleeper = std::thread::spawn(move || {
            let _here = Interruptible::this_thread().unwrap();
            tell.send(crate::sched::current_thread_id()).unwrap();
            let mut long = libc::timespec { tv_sec: 3600, tv_nsec: 0 };
            // SAFETY: both timespecs are valid; nanosleep may write the second.
            unsafe { libc::nanosleep(&raw const long, &raw mut long) }
        });
        let tid = told.recv().unwrap();
        // The thread may not be asleep yet when the first signal arrives, so it is sent until the sleep is over.
        while !sleeper.is_finished() {
            let _ = interrupt_thread(tid);
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), -1);
    use super::*;
    use crate::sleep;
    use crate::timed::Ended;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sleep_of_an_hour_ends() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let me = Interruptible::this_thread().unwrap();
        let interrupter = me.interrupter();
        // Again and again: the first may come before the sleep has begun.
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
