//! Waits for what the program has started itself, and probes: each is polled by the call that tests the same.

use std::ffi::c_int;

use crate::patience;
use crate::symbol::Symbol;

/// Exports a call whose counterpart has a flag among its arguments, and that is done when the flag is set.
macro_rules! tested {
    ($($name:literal $counterpart:literal ($($argument:ident)*) ($($after:ident)*);)*) => {$(
        const _: () = {
            static OWN: Symbol = Symbol::new(concat!("PMPI_", $name, "\0"));
            static COUNTERPART: Symbol = Symbol::new(concat!("PMPI_", $counterpart, "\0"));

            marked!(concat!("MPI_", $name), ($($argument)* $($after)*));

            #[cold]
            extern "C" fn otherwise($($argument: usize,)* $($after: usize),*) -> c_int {
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
const _: () = {
    static OWN: Symbol = Symbol::new("PMPI_Waitsome\0");
    static COUNTERPART: Symbol = Symbol::new("PMPI_Testsome\0");
    marked!("MPI_Waitsome", (count requests done indices statuses));

    #[cold]
    extern "C" fn otherwise(count: usize, requests: usize, done: usize, indices: usize, statuses: usize) -> c_int {
        let by_counterpart = super::counterpart(&COUNTERPART);
        let waiting = patience::wait();
        if !by_counterpart {
            return pass!(OWN, count requests done indices statuses);
        }
        loop {
            let error = pass!(COUNTERPART, count requests done indices statuses);
            // SAFETY: the call has written the count, which the caller may read.
            if error != 0 || unsafe { (done as *const c_int).read() } != 0 {
                return error;
            }
            waiting.idle();
        }
    }
};
