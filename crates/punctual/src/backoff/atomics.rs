//! The atomic word, fence and sleep of [`super::EventCount`]: the real ones, or loom's for the model checker.

#[cfg(not(all(test, loom)))]
pub(super) use real::{AtomicU32, Ordering, Scope, fence, sleep_on, wake_all};

#[cfg(all(test, loom))]
pub(super) use modelled::{AtomicU32, Ordering, Scope, fence, sleep_on, wake_all};

#[cfg(not(all(test, loom)))]
mod real {
    pub(in super::super) use std::sync::atomic::{AtomicU32, Ordering, fence};

    use punctual_linux::futex;
    pub(in super::super) use punctual_linux::futex::Scope;

    /// Sleeps while the word holds `expected`.
    pub(in super::super) fn sleep_on(word: &AtomicU32, expected: u32, scope: Scope, deadline_ns: Option<i64>) {
        // The caller polls again in any case. If the kernel refuses (a seccomp filter without futex), yield instead of spinning.
        if futex::wait(word, expected, scope, deadline_ns).is_err() {
            std::thread::yield_now();
        }
    }

    /// Wakes all sleepers on the word.
    pub(in super::super) fn wake_all(word: &AtomicU32, scope: Scope) {
        // Fails only for an unmapped address (EFAULT); `word` is mapped.
        drop(futex::wake(word, u32::MAX, scope));
    }
}

#[cfg(all(test, loom))]
mod modelled {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    pub(in super::super) use punctual_linux::futex::Scope;

    loom::lazy_static! {
        // The kernel's hash bucket: under its lock, comparing the word and sleeping are one step, and so is waking.
        static ref BUCKET: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(in super::super) fn sleep_on(word: &AtomicU32, expected: u32, _: Scope, _: Option<i64>) {
        let guard = BUCKET.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(BUCKET.1.wait(guard).unwrap());
        }
    }

    pub(in super::super) fn wake_all(_: &AtomicU32, _: Scope) {
        let _guard = BUCKET.0.lock().unwrap();
        BUCKET.1.notify_all();
    }
}
