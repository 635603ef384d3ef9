//! The functions that take the place of the C library's.

mod entries;
mod locks;
mod looking;
mod observed;
mod sleeping;
mod thread;
mod timeouts;
