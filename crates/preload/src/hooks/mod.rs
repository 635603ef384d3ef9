//! The functions that take the place of the C library's.

mod entries;
mod futex;
mod locks;
mod looking;
mod observed;
mod sleeping;
mod taking;
mod thread;
mod timeouts;
