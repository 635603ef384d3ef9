//! The forms of an exported call. Each is exported once more for large counts (`MPI_Send_c`) where registers have 64 bits: its
//! arguments are registers too.

/// The type of an argument: a register.
macro_rules! register {
    ($argument:ident) => {
        usize
    };
}

/// Calls the library's function with registers.
macro_rules! pass {
    ($symbol:ident, $($argument:ident)*) => {
        pass!(@to $symbol.address(), $($argument)*)
    };
    (@to $address:expr, $($argument:ident)*) => {
        // SAFETY: the program's call is passed on. Each argument is in the register, or the slot on the stack, in which it came.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($(register!($argument)),*) -> std::ffi::c_int>(
                $address,
            )($($argument),*)
        }
    };
}

/// Exports a function that is the library's own, `OWN`, marked as a wait: at once where marks are all that is wanted and it has been
/// looked up, else by `otherwise`. That one is apart, since its frame would cost the call more than the mark does.
macro_rules! marked {
    ($name:expr, ($($argument:ident)*)) => {
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn marked($($argument: usize),*) -> std::ffi::c_int {
            // A function that no object has would have ended the program when it was looked up.
            if let Some(address) = OWN.known() && let Some(_waiting) = crate::patience::mark() {
                return pass!(@to address, $($argument)*);
            }
            otherwise($($argument),*)
        }
    };
}

/// Exports a function that is the library's own in each way to wait.
macro_rules! own {
    ($name:expr, $real:expr, $($argument:ident)*) => {
        const _: () = {
            static OWN: crate::symbol::Symbol = crate::symbol::Symbol::new($real);
            marked!($name, ($($argument)*));

            #[cold]
            extern "C" fn otherwise($($argument: usize),*) -> std::ffi::c_int {
                crate::library::waits_by_counterpart();
                let _waiting = crate::patience::wait();
                pass!(OWN, $($argument)*)
            }
        };
    };
}

/// Exports a call whose counterpart starts a request, which is its last argument. The status, if any, goes to `MPI_Test`.
/// Where `$fit` is false, the call is the library's own.
macro_rules! started {
    ($name:expr, $real:expr, $counterpart:expr, $fit:expr, ($($argument:ident)*) $($status:ident)?) => {
        const _: () = {
            static OWN: crate::symbol::Symbol = crate::symbol::Symbol::new($real);
            static COUNTERPART: crate::symbol::Symbol = crate::symbol::Symbol::new($counterpart);

            marked!($name, ($($argument)* $($status)?));

            #[cold]
            extern "C" fn otherwise($($argument: usize,)* $($status: usize)?) -> std::ffi::c_int {
                if !(crate::calls::counterpart(&COUNTERPART) && $fit) {
                    let _waiting = crate::patience::wait();
                    return pass!(OWN, $($argument)* $($status)?);
                }
                let mut started = 0usize;
                let request = (&raw mut started).addr();
                let error = pass!(COUNTERPART, $($argument)* request);
                if error != 0 {
                    return error;
                }
                let mut unused = crate::library::Status::new();
                let given: &[usize] = &[$($status)?];
                let status = given.first().map_or(&raw mut unused, |given| *given as *mut crate::library::Status);
                // SAFETY: the request was just started, and the status is the caller's or this one.
                unsafe { crate::calls::finish(started, status) }
            }
        };
    };
}

/// The calls of a list, in both forms. A call whose peer is `MPI_PROC_NULL` is the library's own.
macro_rules! nonblocking {
    ($($name:literal $counterpart:literal $arguments:tt ($($status:ident)?) $peer:ident;)*) => {$(
        started!(concat!("MPI_", $name), concat!("PMPI_", $name, "\0"), concat!("PMPI_", $counterpart, "\0"),
            !crate::library::is_nobody($peer), $arguments $($status)?);
        #[cfg(target_pointer_width = "64")]
        started!(concat!("MPI_", $name, "_c"), concat!("PMPI_", $name, "_c\0"), concat!("PMPI_", $counterpart, "_c\0"),
            !crate::library::is_nobody($peer), $arguments $($status)?);
    )*};
}
