//! The system calls that a way of waiting makes here, as the kernel sees them.
//!
//! The input is a [`Method`]; the output is the names of its calls in order. It fails if the method is unavailable or
//! tracing is forbidden.

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::observe::{ObserveError, SystemCall, system_calls_after};

use crate::frame::Unavailable;
use crate::ways::wait::Method;

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
