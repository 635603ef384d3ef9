//! The functions that take the place of the C library's.

mod entries;
mod futex;
mod looking;
mod sleeping;
mod start;
mod timeouts;
mod yielding;
