//! The error of a failed call.

use std::io;

/// A Linux call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call}{}: {source}", object.as_deref().map(|o| format!(" ({o})")).unwrap_or_default())]
pub struct Error {
    /// The call, as in its man page.
    pub call: &'static str,
    /// The object of the call: a path, a CPU, a value.
    pub object: Option<String>,
    /// The kernel's error.
    pub source: io::Error,
}

/// Result of a Linux call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of `call` with the given error number.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn from_errno(call: &'static str, errno: i32) -> Self {
        Self { call, object: None, source: io::Error::from_raw_os_error(errno) }
    }

    /// A failure of `call`, with the thread's `errno`.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn last(call: &'static str) -> Self {
        Self { call, object: None, source: io::Error::last_os_error() }
    }

    /// The same error with the object of the call.
    #[must_use]
    pub fn on(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    /// The error number, such as `EPERM`; 0 if there is none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// For calls that return -1 and set `errno`.
#[inline]
pub(crate) fn check(call: &'static str, returned: i32) -> Result<i32> {
    if returned == -1 { Err(Error::last(call)) } else { Ok(returned) }
}

/// For calls that return the error number itself (pthread_*, clock_nanosleep).
#[inline]
pub(crate) fn check_errno_return(call: &'static str, returned: i32) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Error::from_errno(call, returned)) }
}
