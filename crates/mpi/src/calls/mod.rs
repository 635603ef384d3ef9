//! The blocking calls of MPI: each waits with patience.
//!
//! Where the progress function yields ([`crate::library`]), a call is the library's own, marked as a wait. Elsewhere it becomes its
//! nonblocking counterpart; a call without one is the library's own there too.

#[macro_use]
mod export;
mod collective;
mod others;
mod point_to_point;
mod several;

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use crate::library::{self, Status, Test};
use crate::patience;
use crate::symbol::Symbol;

/// Whether calls wait by their nonblocking counterparts, and this one has one.
#[inline]
fn counterpart(counterpart: &Symbol) -> bool {
    library::waits_by_counterpart() && counterpart.find().is_some()
}

/// Waits for a request that one of these calls has started.
///
/// # Safety
/// `request` is a request of the library. `status` may be written to, or is the library's constant to ignore it.
unsafe fn finish(mut request: usize, status: *mut Status) -> c_int {
    static TEST: Symbol = Symbol::new("PMPI_Test\0");
    // SAFETY: MPI_Test has these parameters in every ABI.
    let test = unsafe { transmute::<*mut c_void, Test>(TEST.address()) };
    let waiting = patience::wait();
    loop {
        let mut done: c_int = 0;
        // SAFETY: as the caller promises.
        let error = unsafe { test(&raw mut request, &raw mut done, status) };
        if error != 0 || done != 0 {
            return error;
        }
        waiting.idle();
    }
}
