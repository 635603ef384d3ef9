//! All ways to wait, one small item each, and the system calls that each makes here, as the kernel sees them.
//!
//! A new way is one [`Method`] in the list of `kernel` or `user`; nothing else changes. Its system calls are not known
//! if it is unavailable, or if tracing is forbidden.

mod kernel;
mod user;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::observe::{ObserveError, SystemCall, system_calls_after};

use crate::frame::Unavailable;
use crate::ways::wait::Method;

/// All ways to wait, ordered by kind. It includes those that this machine lacks.
pub fn all() -> impl Iterator<Item = &'static Method> {
    let lists = [user::LIBRARY_METHODS, kernel::METHODS, user::SPINNING_METHODS];
    lists.into_iter().flatten()
}

/// The way called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    all().find(|method| method.name == name)
}

/// Why a method's calls could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum NotObserved {
    /// The method is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// It could not be traced.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

/// The system calls of one wait of `asked_ns`, the first after opening.
pub fn system_calls(method: &Method, asked_ns: i64) -> Result<Vec<SystemCall>, NotObserved> {
    // Opened here first: the child process would lose the reason of a refusal.
    drop((method.open)()?);
    let calls = system_calls_after(
        || (method.open)().expect("a method that opened opens again"),
        |waiter| {
            let from_ns = now_ns(Clock::Monotonic);
            waiter.wait(from_ns, asked_ns).expect("nobody asks this process to stop");
        },
    )?;
    Ok(calls)
}

/// The names of the calls in order, without repetitions, for `--list`.
#[must_use]
pub fn names(calls: &[SystemCall]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for call in calls {
        if !names.contains(&call.name.as_str()) {
            names.push(&call.name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_method() {
        for method in all() {
            assert!(std::ptr::eq(find(method.name).unwrap(), method), "{} twice", method.name);
            assert!(!method.name.is_empty() && !method.about.is_empty() && !method.call.is_empty());
            assert!(method.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
        assert!(find("snooze").is_none());
    }
}
