//! The loaded MPI library: how it can yield and whether it is MPICH, by one generalized request; and the functions through which it polls.
//!
//! A generalized request (`MPI_Grequest_start`) needs no constant of the library, which differ between ABIs. All ranks have the
//! same library, so all find the same. A collective call must not be blocking in one rank and nonblocking in another.
//!
//! Ranks of MPICH that share CPUs are in one session. Its launcher makes each rank the leader of a session, and the kernel schedules
//! sessions as groups (`sched_autogroup_enabled`, sched(7)). `sched_yield(2)` then only gives the CPU to threads of the same rank.
//! A round trip of two ranks on one CPU took 1.5 ms instead of 8 us.
//!
//! In the launcher alone, `setsid(2)` makes a process group and no session. The launcher signals ranks by their group, which stays.
//!
//! One session has the share of one program where others run. So a rank makes its own session after all if all ranks have a CPU.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use crate::symbol::Symbol;
use crate::{patience, rank};

/// Larger than `MPI_Status` of any ABI (32 bytes).
#[repr(C, align(16))]
pub(crate) struct Status([u64; 16]);

impl Status {
    pub(crate) const fn new() -> Self {
        Self([0; 16])
    }
}

/// No MPI call yet.
const UNKNOWN: u8 = 0;
const LEFT_ALONE: u8 = 1;
const PROGRESS: u8 = 2;
const NONBLOCKING: u8 = 3;
const ASKING: u8 = 4;
static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);
/// `MPI_PROC_NULL` of MPICH, if this is MPICH.
static NOBODY: AtomicI32 = AtomicI32::new(c_int::MIN);

/// Whether a rank is `MPI_PROC_NULL` of MPICH. Version 4.0.2 leaves the status of `MPI_Irecv` from it empty, and no call waits for it.
pub(crate) fn is_nobody(rank: usize) -> bool {
    rank as c_int == NOBODY.load(Ordering::Relaxed)
}

/// The calls wait by their nonblocking counterparts: the library's progress function cannot be replaced.
#[inline]
pub(crate) fn waits_by_counterpart() -> bool {
    match WAY.load(Ordering::Acquire) {
        PROGRESS | LEFT_ALONE => false,
        NONBLOCKING => true,
        _ => find_out(),
    }
}

#[cold]
fn find_out() -> bool {
    match WAY.compare_exchange(UNKNOWN, ASKING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => WAY.store(found(), Ordering::Release),
        // Another thread asks. It does not wait for anything.
        Err(_) => {
            while WAY.load(Ordering::Acquire) == ASKING {
                std::hint::spin_loop();
            }
        }
    }
    WAY.load(Ordering::Acquire) == NONBLOCKING
}

/// Begins to count polls, unless the calls are left alone.
fn found() -> u8 {
    static OPEN_MPI: Symbol = Symbol::new("ompi_mpi_comm_world\0");
    let open_mpi = OPEN_MPI.find().is_some();
    if patience::are_unwanted() || (open_mpi && patience::is_learned() && yields_itself()) {
        patience::leave_alone();
        return LEFT_ALONE;
    }
    leave_if_there_are_cpus();
    // `nonblocking` is for tests, and for a library whose progress function misbehaves.
    let progress = ask(open_mpi) && !patience::variable_is(c"PUNCTUAL_MPI_WAIT", c"nonblocking");
    // A thread of Open MPI that ends the wait of another wakes it, and only then releases it. The other one spins until then. If the
    // first has yielded before, it loses the CPU at the wake-up, and the other spins for a time slice.
    if open_mpi && progress && threads_may_wait_together() {
        patience::leave_alone();
        return LEFT_ALONE;
    }
    patience::begin(progress);
    if progress { PROGRESS } else { NONBLOCKING }
}

/// Open MPI yields in each poll if its launcher sees more ranks than CPUs (`mpi_yield_when_idle`). More yields only cost.
fn yields_itself() -> bool {
    static SET: Symbol = Symbol::new("opal_progress_set_yield_when_idle\0");
    SET.find().is_some_and(|set| {
        // SAFETY: it has this type in Open MPI 1.3 and later, and returns the old value.
        let set = unsafe { transmute::<*mut c_void, extern "C" fn(bool) -> bool>(set) };
        let yields = set(true);
        set(yields);
        yields
    })
}

/// The program asked for MPI_THREAD_MULTIPLE, which is 3 in Open MPI.
fn threads_may_wait_together() -> bool {
    static QUERY: Symbol = Symbol::new("PMPI_Query_thread\0");
    let mut level: c_int = 0;
    // SAFETY: it has this type in every ABI (MPI 2.0 and later), and `level` is writable.
    let query = unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(QUERY.address()) };
    // SAFETY: as above.
    unsafe { query(&raw mut level) };
    level == 3
}

type GrequestStart = unsafe extern "C" fn(Query, Free, Cancel, *mut c_void, *mut usize) -> c_int;
type Query = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = extern "C" fn(*mut c_void) -> c_int;
type Cancel = extern "C" fn(*mut c_void, c_int) -> c_int;

extern "C" fn query(_: *mut c_void, _: *mut c_void) -> c_int {
    0
}

extern "C" fn free(_: *mut c_void) -> c_int {
    0
}

extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    0
}

/// Tests a request that is not complete, and says whether the library polled through a function of [`crate::progress`].
fn ask(open_mpi: bool) -> bool {
    static START: Symbol = Symbol::new("PMPI_Grequest_start\0");
    static COMPLETE: Symbol = Symbol::new("PMPI_Grequest_complete\0");
    static TEST: Symbol = Symbol::new("PMPI_Test\0");
    static WAIT: Symbol = Symbol::new("PMPI_Wait\0");
    let mut request = usize::MAX;
    let mut status = Status::new();
    let mut done: c_int = 0;
    // SAFETY: the functions have these parameters in every ABI (MPI 2.0 and later). A handle is an integer or a pointer, and both
    // fit into `request`.
    unsafe {
        let start = transmute::<*mut c_void, GrequestStart>(START.address());
        let complete = transmute::<*mut c_void, unsafe extern "C" fn(usize) -> c_int>(COMPLETE.address());
        let test = transmute::<*mut c_void, Test>(TEST.address());
        let wait = transmute::<*mut c_void, unsafe extern "C" fn(*mut usize, *mut Status) -> c_int>(WAIT.address());
        if start(query, free, cancel, ptr::null_mut(), &raw mut request) != 0 {
            return false;
        }
        // MPICH writes an integer; an address never ends with the bytes that were there before.
        let half = usize::BITS / 2;
        let integer = size_of::<usize>() == 4 || request >> half == usize::MAX >> half;
        if integer && !open_mpi {
            NOBODY.store(-1, Ordering::Relaxed);
        }
        test(&raw mut request, &raw mut done, &raw mut status);
        test(&raw mut request, &raw mut done, &raw mut status);
        complete(request);
        wait(&raw mut request, &raw mut status);
        patience::has_polled()
    }
}

/// `MPI_Test`.
type Test = unsafe extern "C" fn(*mut usize, *mut c_int, *mut Status) -> c_int;

/// Which way this process waits: 0: no MPI call yet, 1: left alone, 2: through the progress function, 3: by nonblocking counterparts.
#[unsafe(no_mangle)]
extern "C" fn punctual_mpi_way() -> c_int {
    c_int::from(WAY.load(Ordering::Relaxed))
}

// The functions through which MPI libraries poll: `ucp_worker_progress` of UCX (MPICH, device ch4:ucx) and `opal_progress` of
// Open MPI. They do what they did; within a wait, polls are counted before.
//
// The launchers use them too (`mpirun` of Open MPI). Outside of a wait nothing is added to them.

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

/// The process of MPICH's launcher, hydra, that starts the ranks of a node.
const LAUNCHER: &CStr = c"hydra_pmi_proxy";
static SETSID: Symbol = Symbol::new("setsid\0");

unsafe extern "C" {
    /// The program's name without folders (program_invocation_short_name(3)).
    static program_invocation_short_name: *const libc::c_char;
}

/// setsid(2).
#[unsafe(no_mangle)]
extern "C" fn setsid() -> libc::pid_t {
    // SAFETY: the name ends with a NUL, and this call has no preconditions.
    unsafe {
        if libc::strcmp(program_invocation_short_name, LAUNCHER.as_ptr()) == 0 && !patience::is_disabled() {
            return if libc::setpgid(0, 0) == 0 { libc::getpid() } else { -1 };
        }
    }
    real_setsid()
}

fn real_setsid() -> libc::pid_t {
    // SAFETY: the function has this type and no preconditions.
    unsafe { transmute::<*mut c_void, extern "C" fn() -> libc::pid_t>(SETSID.address())() }
}

/// Makes the session that the launcher would have made, if the ranks that may run here have a CPU each.
pub(crate) fn leave_if_there_are_cpus() {
    // SAFETY: these calls have no preconditions.
    let (me, group, parent) = unsafe { (libc::getpid(), libc::getpgrp(), libc::getppid()) };
    if group != me || !rank::is_named(parent, LAUNCHER) || rank::share_cpus() {
        return;
    }
    // SAFETY: as above. The leader of a group cannot make a session, so it joins the launcher's for a moment.
    unsafe {
        if libc::setpgid(0, libc::getpgid(parent)) == 0 && real_setsid() < 0 {
            libc::setpgid(0, 0);
        }
    }
}
