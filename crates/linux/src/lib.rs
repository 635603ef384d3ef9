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

pub mod apart;
pub mod bpf;
pub mod call_table;
pub mod child;
pub mod clock;
pub mod counter;
mod error;
pub mod forks;
pub mod futex;
pub mod inherited;
pub mod ipc;
pub mod memory;
pub mod named_lock;
pub mod net;
pub mod observe;
pub mod own_signal;
#[cfg(feature = "tracepoints")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")), path = "perf/absent.rs")]
pub mod perf;
pub mod poll;
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
pub mod shared;
pub mod signal;
pub mod sleep;
pub mod stop;
pub mod supervise;
pub mod sync;
pub mod syscall_name;
pub mod timer;
pub mod usage;
pub mod user_wait;

pub use error::{Error, Result};
pub(crate) use error::{check, check_errno_return};
pub use libc::{EAGAIN, EBADMSG, EINTR, EMFILE, ENOBUFS, ENOMEM, ENOSPC, ENOSYS, EPERM, EPIPE, ESRCH};
