//! Waiting for what must come true.

use std::time::{Duration, Instant};

/// When a test gives up: so late that only a failure reaches it, however busy the machine is.
pub const GIVE_UP: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// Looks until there is something, and returns it. It says nothing about how soon.
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

/// Looks until it holds. It says nothing about how soon.
///
/// # Panics
/// After [`GIVE_UP`], with `what`.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}
