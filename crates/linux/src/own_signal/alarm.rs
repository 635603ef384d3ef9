//! Passes SIGALRM, which any thread of the process may take, to the thread that waits for it.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// The thread that waits for SIGALRM: its kernel ID (0: none), and its pthread. That is known without a system call.
static ALARM_TARGET: AtomicI32 = AtomicI32::new(0);
static ALARM_THREAD: AtomicUsize = AtomicUsize::new(0);
/// Threads that are passing a SIGALRM on.
static FORWARDING: AtomicU32 = AtomicU32::new(0);

/// While this exists, other threads pass SIGALRM on to the thread that created it.
#[derive(Debug)]
pub(crate) struct AlarmTarget(());

impl AlarmTarget {
    /// For the calling thread. The caller ensures that only one exists.
    pub(crate) fn this_thread() -> Self {
        // SAFETY: no arguments.
        let (thread, number) = unsafe { (libc::pthread_self(), libc::gettid()) };
        ALARM_THREAD.store(thread as usize, Ordering::SeqCst);
        ALARM_TARGET.store(number, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for AlarmTarget {
    fn drop(&mut self) {
        ALARM_TARGET.store(0, Ordering::SeqCst);
        // Wait for threads that still pass one on before the old handler, which may end the process, is restored.
        while FORWARDING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Passes SIGALRM on to the waiting thread, if another one got it.
pub(super) extern "C" fn forward(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    FORWARDING.fetch_add(1, Ordering::SeqCst);
    let target = ALARM_TARGET.load(Ordering::SeqCst);
    // SAFETY: pthread_self, getpid and tgkill are async-signal-safe and take numbers; the interrupted code's errno is put back.
    unsafe {
        if target != 0 && ALARM_THREAD.load(Ordering::SeqCst) != libc::pthread_self() as usize {
            let errno = *libc::__errno_location();
            libc::syscall(libc::SYS_tgkill, libc::getpid(), target, signal);
            *libc::__errno_location() = errno;
        }
    }
    FORWARDING.fetch_sub(1, Ordering::SeqCst);
}
