//! The functions that take the place of the C library's.

mod entries;
mod futex;
mod looking;
mod naming;
mod sleeping;
mod start;
mod starting;
mod timeouts;
mod yielding;
