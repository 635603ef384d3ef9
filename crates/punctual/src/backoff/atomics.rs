//! The word, the fence and the sleep that [`super::Bell`] is made of: the real ones, or, for the model checker, loom's.

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
        // However it ends, the caller polls again. A kernel that refuses (a seccomp filter without futex lets no program of today
        // run at all) makes this a yield rather than a spin.
        if futex::wait(word, expected, scope, deadline_ns).is_err() {
            std::thread::yield_now();
        }
    }

    /// Wakes all who sleep on the word.
    pub(in super::super) fn wake_all(word: &AtomicU32, scope: Scope) {
        // It fails only for an address that is not mapped (EFAULT), and `word` is.
        drop(futex::wake(word, u32::MAX, scope));
    }
}

#[cfg(all(test, loom))]
mod modelled {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    pub(in super::super) use punctual_linux::futex::Scope;

    loom::lazy_static! {
        // The kernel's hash bucket: comparing the word and going to sleep are one step under its lock, and so is waking.
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
