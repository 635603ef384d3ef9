//! Functions of other libraries, looked up by name when they are first called: those of the MPI library, and the C library's own
//! `sched_yield` and `clock_nanosleep`.
//!
//! Another library that is loaded into the program may replace the latter (`punctual run --sched-yield`, `--precise-sleep`). That is meant
//! for the program's calls: a rank that waits has to give up the CPU.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// MPI libraries, and those that they poll through. A program such as Python may load them out of sight of `dlsym(RTLD_NEXT)`.
const OBJECTS: [&CStr; 10] = [
    c"libmpi.so.40",
    c"libmpich.so.12",
    c"libmpi.so.12",
    c"libmpi_abi.so.1",
    c"libmpi_abi.so.0",
    c"libmpi_mpifh.so.40",
    c"libmpichfort.so.12",
    c"libopen-pal.so.40",
    c"libopen-pal.so.80",
    c"libucp.so.0",
];

/// A function's name, and its address once known.
pub(crate) struct Symbol {
    name: &'static str,
    address: AtomicPtr<c_void>,
}

/// The address of a function that no loaded object has.
static ABSENT: u8 = 0;

impl Symbol {
    /// `name` ends with a NUL.
    pub(crate) const fn new(name: &'static str) -> Self {
        assert!(name.as_bytes()[name.len() - 1] == 0);
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The function's address, or `None` where no loaded object has it.
    #[inline]
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.look_up();
        }
        (!ptr::eq(address, absent())).then_some(address)
    }

    /// The address, if the function has been looked up.
    #[inline]
    pub(crate) fn known(&self) -> Option<*mut c_void> {
        let address = self.address.load(Ordering::Relaxed);
        (!address.is_null()).then_some(address)
    }

    /// The function's address. A program that calls `MPI_X` has an MPI library, and that has `PMPI_X`.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        self.find().unwrap_or_else(|| self.missing())
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let name = self.name.as_ptr().cast();
        // SAFETY: `name` ends with a NUL.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        let found =
            Some(next).filter(|found| !found.is_null()).or_else(|| OBJECTS.iter().find_map(|o| within(o, name)));
        let address = found.unwrap_or(absent());
        self.address.store(address, Ordering::Relaxed);
        address
    }

    #[cold]
    fn missing(&self) -> ! {
        let name = self.name.trim_end_matches('\0');
        eprintln!(
            "punctual: error: no MPI library that is loaded has {name}; run the program without libpunctual_mpi.so"
        );
        std::process::abort()
    }
}

fn absent() -> *mut c_void {
    ptr::from_ref(&ABSENT).cast_mut().cast()
}

/// The function in one object, if the program has loaded it.
fn within(object: &CStr, name: *const libc::c_char) -> Option<*mut c_void> {
    // SAFETY: both names end with a NUL; RTLD_NOLOAD loads nothing, and the handle keeps the object where it is.
    let found = unsafe {
        let handle = libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        libc::dlsym(handle, name)
    };
    (!found.is_null()).then_some(found)
}

/// sched_yield(2) of the C library itself.
pub(crate) fn sched_yield() {
    type Yield = extern "C" fn() -> c_int;
    static FOUND: OnceLock<Yield> = OnceLock::new();
    FOUND.get_or_init(|| match libc_function(c"sched_yield") {
        // SAFETY: the C library's function has this type.
        Some(function) => unsafe { std::mem::transmute::<*mut c_void, Yield>(function) },
        None => yield_of_libc,
    })();
}

/// Sleeps for a time of CLOCK_MONOTONIC, or until a signal, by the C library's own `clock_nanosleep`.
pub(crate) fn sleep(time: &libc::timespec) {
    type Sleep = unsafe extern "C" fn(libc::clockid_t, c_int, *const libc::timespec, *mut libc::timespec) -> c_int;
    static FOUND: OnceLock<Sleep> = OnceLock::new();
    let sleep = FOUND.get_or_init(|| match libc_function(c"clock_nanosleep") {
        // SAFETY: the C library's function has this type.
        Some(function) => unsafe { std::mem::transmute::<*mut c_void, Sleep>(function) },
        None => libc::clock_nanosleep,
    });
    // SAFETY: `time` is valid, and the rest of an interrupted sleep is not asked for.
    unsafe { sleep(libc::CLOCK_MONOTONIC, 0, time, std::ptr::null_mut()) };
}

extern "C" fn yield_of_libc() -> c_int {
    // SAFETY: sched_yield(2) has no preconditions.
    unsafe { libc::sched_yield() }
}

/// A function of the C library; `None` where the library has another name (musl).
fn libc_function(name: &CStr) -> Option<*mut c_void> {
    within(c"libc.so.6", name.as_ptr())
}
