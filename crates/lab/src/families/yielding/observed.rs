//! The system calls that a way of yielding makes here, as the kernel sees them.

use punctual_linux::observe::{ObserveError, SystemCall, system_calls_after};

use crate::ways::yielding::Method;

/// The system calls of one call of the method, with their arguments. None if the method cannot be opened.
pub fn system_calls(method: &Method) -> Result<Vec<SystemCall>, ObserveError> {
    system_calls_after(
        || (method.open)().ok(),
        |yielder| {
            if let Some(yielder) = yielder {
                yielder.repeat(1);
            }
        },
    )
}

/// The calls in a few words: `clock_nanosleep`, `none`, or the reason why they are unknown.
#[must_use]
pub fn in_words(method: &Method) -> String {
    match system_calls(method) {
        Ok(calls) if calls.is_empty() => "none".into(),
        Ok(calls) => calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", "),
        Err(error) => format!("not known: {error}"),
    }
}
