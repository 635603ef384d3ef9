//! A process-wide request to stop waiting, so that Ctrl-C can cut a long wait.
//!
//! A signal handler or any thread calls [`request`]. A waiting thread checks [`requested`] when a signal interrupts its call. Both are
//! async-signal-safe.

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

/// Clears the request.
#[inline]
pub fn clear() {
    REQUESTED.store(false, Ordering::Relaxed);
}
