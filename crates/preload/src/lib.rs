//! A library for `LD_PRELOAD` that takes the place of a program's waits: `libpunctual_preload.so`.
//!
//! `punctual run` sets it up; by hand it is `LD_PRELOAD=/path/libpunctual_preload.so PUNCTUAL_PRELOAD="usleep0=yield" PROGRAM`.
//! Without `PUNCTUAL_PRELOAD`, every call goes to the C library unchanged.
//!
//! | setting | waits | what it does |
//! |---|---|---|
//! | `usleep0=yield\|pause\|backoff` | `usleep`, `nanosleep`, `clock_nanosleep`, `thrd_sleep` of at most 1 µs | yields, pauses, or both before it sleeps |
//! | `sched_yield=pause\|backoff\|sleep` | `sched_yield`, `pthread_yield`, `thrd_yield` | the same; `sleep` gives the CPU to any thread |
//! | `precise=balanced`, `precise=lateness:NS:SHARE`, `precise=budget:SHARE` | the same of more than 1 µs, and the timeouts of `poll`, `select`, `epoll` | sleeps until a learned margin before the deadline, then spins ([`punctual::margin`]) |
//! | `poll_first=NS` | `poll`, `select`, `epoll`, `FUTEX_WAIT` by `syscall` | looks for this long before it blocks |
//!
//! A wait never ends before its time. Signals end a wait as they do without the library, except in the last microseconds, which it spins.
//!
//! # What it never does
//!
//! The functions allocate nothing and take no lock, and are safe in a signal handler and after `fork` or `vfork`. They keep `errno` of the
//! C library. They are cancellation points where the C library's are: they are
//! `extern "C-unwind"`, since cancelling a thread unwinds it (pthreads(7)). A setting that the library does not know leaves all calls as
//! they are: it prints nothing, since the streams are the program's.
//!
//! Programs that make system calls without the C library (static ones, Go) do not see it, and the loader leaves it out of set-user-ID
//! programs (ld.so(8)).

#![allow(unsafe_code, reason = "a library for LD_PRELOAD has the types of the C library")]
#![cfg_attr(test, allow(dead_code, reason = "a test does not export the functions"))]
#![allow(unreachable_pub, reason = "the loader reaches them by name")]

mod caller;
mod hooks;
mod learn;
mod next;
mod now;
mod settings;
mod zero;
