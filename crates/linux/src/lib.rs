//! Linux calls that std and rustix lack, made safe.
//!
//! No other crate of the project has `unsafe` code, except for `preload` and `mpi`. These replace functions of C. Each module wraps one
//! family of calls. The first line of each public function's documentation names its call. *Measured* calls go through the C library,
//! as in a C program. Other calls may use rustix.
//!
//! It decides nothing and prints nothing. An [`Error`] has the call, its object and the kernel's error.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the width of C types differs between architectures"
)]

pub mod bpf;
pub mod call_table;
pub mod child;
pub mod clock;
pub mod counter;
pub mod futex;
pub mod inherited;
pub mod ipc;
pub mod memory;
pub mod named_lock;
pub mod net;
pub mod observe;
#[cfg(feature = "tracepoints")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")), path = "perf/absent.rs")]
pub mod perf;
#[cfg_attr(
    not(all(
        feature = "io-uring",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "powerpc64"
        )
    )),
    path = "ring/absent.rs"
)]
pub mod ring;
pub mod sched;
pub mod signal;
pub mod sleep;
pub mod supervise;
pub mod syscall_name;
pub mod timer;

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

pub use libc::{EAGAIN, EBADMSG, EINTR, EMFILE, ENOBUFS, ENOMEM, ENOSPC, ENOSYS, EPERM, EPIPE, ESRCH};
pub use signal::stop;

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

/// For calls of rustix and of std: the failure of `call`.
pub(crate) fn failed<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> Error {
    move |source| Error { call, object: None, source: source.into() }
}

/// For calls that return -1 and set `errno`.
#[inline]
pub(crate) fn check(call: &'static str, returned: i32) -> Result<i32> {
    if returned == -1 { Err(Error::last(call)) } else { Ok(returned) }
}

/// For calls that return a new descriptor, or -1 and set `errno`.
///
/// # Safety
/// The kernel has just given the descriptor to the caller, and nobody else knows it.
#[inline]
pub(crate) unsafe fn descriptor(call: &'static str, returned: i32) -> Result<OwnedFd> {
    // SAFETY: the caller says so.
    check(call, returned).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// For calls that return the error number itself (pthread_*, clock_nanosleep).
#[inline]
pub(crate) fn check_errno_return(call: &'static str, returned: i32) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Error::from_errno(call, returned)) }
}
