//! Reports tests that cannot run here.

use std::io::Write as _;

use crate::lack::Lack;

/// `1` makes a skip a failure. The gate sets it.
const NO_SKIP: &str = "PUNCTUAL_NO_SKIP";

/// Reports that a test cannot run here, but can on a machine prepared for the tests: with a package, a right, a setting.
///
/// # Panics
/// With `PUNCTUAL_NO_SKIP=1`.
#[track_caller]
pub fn skip(why: &str) {
    assert!(std::env::var_os(NO_SKIP).is_none_or(|value| value != "1"), "must not be skipped here: {why}");
    say(why);
}

/// Reports that a test cannot run here because the hardware or the kernel lacks something that no package provides.
///
/// # Panics
/// If this machine has it.
#[track_caller]
pub fn lacks(lack: Lack) {
    assert!(!lack.is_here(), "this machine has {lack}: the test can run");
    say(&format!("this machine lacks {lack}"));
}

/// Prints past the test harness, which hides `eprintln!` of tests that pass.
fn say(why: &str) {
    let thread = std::thread::current();
    print(&format!("{PREFIX}{}: {why}", thread.name().unwrap_or("a test")));
}

/// The prefix of a line about a skipped test.
pub(crate) const PREFIX: &str = "skipped: ";

pub(crate) fn print(line: &str) {
    // One write, so that lines of concurrent tests stay whole. Without stderr, nothing can be reported.
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}
