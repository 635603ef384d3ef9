//! All ways to wait, on the real kernel.
#![forbid(unsafe_code)]

mod calls;
mod common;
mod never_early;
mod reexec;
mod resources;
