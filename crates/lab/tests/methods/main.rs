//! All ways to wait, on the real kernel.
#![forbid(unsafe_code)]

mod never_early;
mod own_process;
mod resources;
mod support;
mod system_calls;
