//! Delays `fork(2)` during a few instructions: `pthread_atfork(3)`.
//!
//! Some resources can be hidden from forked children only shortly after their creation. [`no_fork_meanwhile`] runs such a critical section;
//! a fork by another thread waits for its end. Only the C library's `fork()` waits. `posix_spawn(3)` and `vfork(2)` need not: their
//! child executes a program, which drops every copy.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::signal::block_all_signals_for_this_thread;
use crate::{Result, check_errno_return};

/// Threads in a critical section.
static MOMENTS: AtomicU32 = AtomicU32::new(0);
/// Forks in progress.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Interval of the checks while waiting: asleep, so that a real-time thread lets the other one run.
const LOOK: Duration = Duration::from_micros(50);
/// Checks before a side gives up, at least one second: a blocked fork would be worse than a copy.
const MOST_LOOKS: u32 = 20_000;

/// Runs `moment` while no other thread of this process forks. `moment` must be short and must not fork.
///
/// # Errors
/// ENOMEM if the handlers could not be registered.
pub fn no_fork_meanwhile<T>(moment: impl FnOnce() -> T) -> Result<T> {
    // No OnceLock: a child forked while another thread initialises it would wait for that thread. Two threads may both register here,
    // which is harmless.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the handlers are functions of this program that touch atomics, sleep, and neither allocate nor unwind.
        let returned = unsafe { pthread_atfork(Some(begin), Some(end), Some(end_in_child)) };
        check_errno_return("pthread_atfork", returned)?;
        REGISTERED.store(true, Ordering::Release);
    }
    // A signal handler on this thread might fork, and would wait for itself.
    let _signals = block_all_signals_for_this_thread()?;
    let mut looks = 0;
    loop {
        MOMENTS.fetch_add(1, Ordering::SeqCst);
        let over = Over;
        if FORKS.load(Ordering::SeqCst) == 0 || looks == MOST_LOOKS {
            let done = moment();
            drop(over);
            return Ok(done);
        }
        drop(over);
        looks += 1;
        std::thread::sleep(LOOK);
    }
}

/// Ends a critical section, even on panic.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        MOMENTS.fetch_sub(1, Ordering::SeqCst);
    }
}

unsafe extern "C" {
    /// `pthread_atfork(3)`, which the libc crate does not declare for every Linux target.
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

unsafe extern "C" fn begin() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let mut looks = 0;
    while MOMENTS.load(Ordering::SeqCst) != 0 && looks < MOST_LOOKS {
        std::thread::sleep(LOOK);
        looks += 1;
    }
}

unsafe extern "C" fn end() {
    // A fork that began before the registration was not counted.
    let _ = FORKS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |forks| forks.checked_sub(1));
}

/// In the child, only the forking thread exists.
unsafe extern "C" fn end_in_child() {
    FORKS.store(0, Ordering::SeqCst);
    MOMENTS.store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Ended};

    #[test]
    fn a_fork_waits_until_the_moment_is_over() {
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                no_fork_meanwhile(|| {
                    begun.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    over.store(true, Ordering::SeqCst);
                })
                .unwrap();
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let seen = over.load(Ordering::SeqCst);
            let mut child = Child::spawn("after", || {
                // A moment within the child works as well: it does not wait for the parent's.
                no_fork_meanwhile(|| ()).unwrap();
            })
            .unwrap();
            assert!(seen || over.load(Ordering::SeqCst), "the fork came after the moment");
            assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        });
    }
}
