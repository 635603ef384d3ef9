//! Waits for what the program has started itself, and probes: each is polled by the call that tests the same.

use std::ffi::c_int;

use crate::library::waits_by_counterpart;
use crate::patience;
use crate::symbol::Symbol;

/// Exports a call whose counterpart has a flag among its arguments, and that is done when the flag is set.
macro_rules! tested {
    ($($name:literal $counterpart:literal ($($argument:ident)*) ($($after:ident)*);)*) => {$(
        const _: () = {
            #[unsafe(export_name = concat!("MPI_", $name))]
            unsafe extern "C" fn tested($($argument: usize,)* $($after: usize),*) -> c_int {
                static OWN: Symbol = Symbol::new(concat!("PMPI_", $name, "\0"));
                static COUNTERPART: Symbol = Symbol::new(concat!("PMPI_", $counterpart, "\0"));
                let by_counterpart = super::counterpart(&COUNTERPART);
                let waiting = patience::wait();
                if !by_counterpart {
                    return pass!(OWN, $($argument)* $($after)*);
                }
                loop {
                    let mut done: c_int = 0;
                    let flag = (&raw mut done).addr();
                    let error = pass!(COUNTERPART, $($argument)* flag $($after)*);
                    if error != 0 || done != 0 {
                        return error;
                    }
                    waiting.idle();
                }
            }
        };
    )*};
}

tested! {
    "Wait" "Test" (request) (status);
    "Waitall" "Testall" (count requests) (statuses);
    "Waitany" "Testany" (count requests index) (status);
    "Probe" "Iprobe" (source tag comm) (status);
    "Mprobe" "Improbe" (source tag comm) (message status);
    "Win_wait" "Win_test" (window) ();
}

/// `MPI_Testsome` has no flag: a count of zero means that none is done.
#[unsafe(export_name = "MPI_Waitsome")]
unsafe extern "C" fn waitsome(
    count: usize,
    requests: usize,
    done: *mut c_int,
    indices: usize,
    statuses: usize,
) -> c_int {
    static OWN: Symbol = Symbol::new("PMPI_Waitsome\0");
    static COUNTERPART: Symbol = Symbol::new("PMPI_Testsome\0");
    let by_counterpart = waits_by_counterpart();
    let waiting = patience::wait();
    let done_at = done.addr();
    if !by_counterpart {
        return pass!(OWN, count requests done_at indices statuses);
    }
    loop {
        let error = pass!(COUNTERPART, count requests done_at indices statuses);
        // SAFETY: the call has written the count, which the caller may read.
        if error != 0 || unsafe { done.read() } != 0 {
            return error;
        }
        waiting.idle();
    }
}
