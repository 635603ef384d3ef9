//! The functions that take the place of the C library's.

mod conditions;
mod entries;
mod futex;
mod locks;
mod looking;
mod naming;
mod observed;
mod semaphores;
mod sleeping;
mod start;
mod starting;
mod taking;
mod timeouts;
mod yielding;
