//! Waits for a condition.

use std::time::{Duration, Instant};

/// Time limit: long enough that only a failure reaches it, even on a busy machine.
pub const GIVE_UP: Duration = Duration::from_secs(120);

/// Interval of the polls.
const LOOK: Duration = Duration::from_millis(2);

/// Polls until `look` returns a value. Never asserts how soon.
///
/// # Panics
/// After [`GIVE_UP`], with `what`.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < GIVE_UP, "{what}: never came true");
        std::thread::sleep(LOOK);
    }
}

/// Polls until `holds` is true. Never asserts how soon.
///
/// # Panics
/// After [`GIVE_UP`], with `what`.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}
