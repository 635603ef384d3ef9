//! What the tests of conditions share.

use std::panic::resume_unwind;

use punctual::Conditions;
use punctual_linux::sched::{self, Attributes};

/// Runs `body` on a thread of its own. A test that fails to put something back then harms no other.
pub(crate) fn on_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(body).join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Everything about the calling thread that the conditions touch, as exactly as the kernel tells it.
pub(crate) fn state() -> (Attributes, i32, Vec<usize>, u64) {
    (
        sched::attributes(0).unwrap(),
        sched::nice(0).unwrap(),
        punctual_linux::sched::affinity(0).unwrap(),
        punctual_linux::sched::timer_slack_ns().unwrap(),
    )
}

/// Whether this runs as root with the right to set real-time policies; says so where not.
pub(crate) fn privileged() -> bool {
    let can = on_thread(|| Conditions::new().policy(punctual::Policy::Fifo(1)).apply().refused.is_empty());
    if !can || !punctual_testing::is_root() {
        punctual_testing::skip("needs root and CAP_SYS_NICE");
        return false;
    }
    true
}
