//! The wish of the whole process to stop waiting, so that a long wait can be cut by Ctrl-C.
//!
//! A signal handler (or any thread) calls [`request`]; whoever waits looks at [`requested`] when a signal interrupted its
//! call. Setting and reading are async-signal-safe.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks all waits of this process to end at their next interruption. Async-signal-safe.
#[inline]
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Whether [`request`] was called and not yet cleared.
#[inline]
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Takes the request back.
#[inline]
pub fn clear() {
    REQUESTED.store(false, Ordering::Relaxed);
}
