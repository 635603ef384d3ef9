//! Tests that cannot run here.

use std::io::Write as _;

/// Set to `1`: a skip is a failure. The gate sets it.
const NO_SKIP: &str = "PUNCTUAL_NO_SKIP";

/// Says that a test cannot run here although a machine prepared for the tests can run it.
///
/// # Panics
/// Under `PUNCTUAL_NO_SKIP=1`.
#[track_caller]
pub fn skip(why: &str) {
    assert!(std::env::var_os(NO_SKIP).is_none_or(|value| value != "1"), "must not be skipped here: {why}");
    say(why);
}

/// Says that a test cannot run here because the hardware or the kernel lacks something that no package brings.
pub fn lacks(what: &str) {
    say(what);
}

/// The test harness keeps what `eprintln!` prints in a test that passes; it does not keep this.
fn say(why: &str) {
    let thread = std::thread::current();
    print(&format!("{PREFIX}{}: {why}", thread.name().unwrap_or("a test")));
}

/// What a line begins with that says that a test was skipped.
pub(crate) const PREFIX: &str = "skipped: ";

pub(crate) fn print(line: &str) {
    // One write: lines of tests that run at once stay whole. Without a standard error nobody can be told.
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}
