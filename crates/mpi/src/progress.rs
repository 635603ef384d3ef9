//! The functions through which MPI libraries poll: `ucp_worker_progress` of UCX (MPICH, device ch4:ucx) and `opal_progress` of
//! Open MPI. They do what they did; within a wait, polls are counted before.
//!
//! The launchers use them too (`mpirun` of Open MPI). Outside of a wait nothing is added to them.

use std::ffi::{c_uint, c_void};
use std::mem::transmute;

use crate::patience;
use crate::symbol::Symbol;

/// ucp_worker_progress(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    static REAL: Symbol = Symbol::new("ucp_worker_progress\0");
    patience::poll();
    // SAFETY: the caller meant this function, with this argument.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_uint>(REAL.address())(worker) }
}

/// It returns nothing in Open MPI 4 and a number of events in version 5. Either is passed on.
#[unsafe(no_mangle)]
unsafe extern "C" fn opal_progress() -> usize {
    static REAL: Symbol = Symbol::new("opal_progress\0");
    patience::poll();
    // SAFETY: the caller meant this function. It has no arguments, and the result is a register that the caller may ignore.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(REAL.address())() }
}
