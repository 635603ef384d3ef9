//! The blocking calls of MPI: each waits with patience.
//!
//! Where the progress function yields ([`crate::library`]), a call is the library's own, marked as a wait. Elsewhere it becomes its
//! nonblocking counterpart; a call without one is the library's own there too.
//!
//! Each is exported once more for large counts (`MPI_Send_c`) where registers have 64 bits: its arguments are registers too.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use crate::library::{self, Status, Test, is_nobody, waits_by_counterpart};
use crate::patience;
use crate::symbol::Symbol;

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
                if !(counterpart(&COUNTERPART) && $fit) {
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
                unsafe { finish(started, status) }
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

// Messages between two ranks.

nonblocking! {
    "Send" "Isend" (buffer count datatype destination tag comm) () destination;
    "Ssend" "Issend" (buffer count datatype destination tag comm) () destination;
    "Rsend" "Irsend" (buffer count datatype destination tag comm) () destination;
    "Bsend" "Ibsend" (buffer count datatype destination tag comm) () destination;
    "Recv" "Irecv" (buffer count datatype source tag comm) (status) source;
}

/// Six arguments, and the request.
type Start = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, *mut usize) -> c_int;

/// What a message is made of: buffer, count, datatype, peer, tag, communicator.
type Message = [usize; 6];

/// Starts a message, or makes the call of the same parameters that has a status in place of the request.
fn start(how: &Symbol, [a, b, c, d, e, f]: Message, last: *mut usize) -> c_int {
    // SAFETY: MPI_Isend, MPI_Irecv and MPI_Recv have these parameters in every ABI, and the program's are passed on.
    unsafe { transmute::<*mut c_void, Start>(how.address())(a, b, c, d, e, f, last) }
}

/// Both directions at once. The receive is posted first, so that the peer's message need not be copied twice.
fn send_and_receive(
    isend: &Symbol,
    [irecv, recv]: [&Symbol; 2],
    sent: Message,
    received: Message,
    status: usize,
) -> c_int {
    let (mut receive, mut send) = (0, 0);
    let from_nobody = is_nobody(received[3]);
    if !from_nobody {
        let error = start(irecv, received, &raw mut receive);
        if error != 0 {
            return error;
        }
    }
    let error = start(isend, sent, &raw mut send);
    if error != 0 {
        if !from_nobody {
            give_up(receive);
        }
        return error;
    }
    let mut unused = Status::new();
    // SAFETY: both requests were just started, and the status is the caller's or this one.
    let (sent, received) = unsafe {
        match from_nobody {
            true => (finish(send, &raw mut unused), start(recv, received, status as *mut usize)),
            false => {
                let received = finish(receive, status as *mut Status);
                (finish(send, &raw mut unused), received)
            }
        }
    };
    if received != 0 { received } else { sent }
}

/// Cancels a receive and forgets it.
fn give_up(mut request: usize) {
    static CANCEL: Symbol = Symbol::new("PMPI_Cancel\0");
    static FREE: Symbol = Symbol::new("PMPI_Request_free\0");
    for call in [&CANCEL, &FREE] {
        // SAFETY: both take the address of a request, and this one is active.
        unsafe {
            transmute::<*mut c_void, unsafe extern "C" fn(*mut usize) -> c_int>(call.address())(&raw mut request)
        };
    }
}

macro_rules! sendrecv {
    ($name:expr, $real:expr, $isend:expr, $irecv:expr, $recv:expr) => {
        const _: () = {
            static OWN: Symbol = Symbol::new($real);
            static ISEND: Symbol = Symbol::new($isend);
            static IRECV: Symbol = Symbol::new($irecv);
            static RECV: Symbol = Symbol::new($recv);
            marked!($name, (a b c d e f g h i j comm status));

            #[cold]
            #[rustfmt::skip]
            extern "C" fn otherwise(
                a: usize, b: usize, c: usize, d: usize, e: usize,
                f: usize, g: usize, h: usize, i: usize, j: usize, comm: usize, status: usize,
            ) -> c_int {
                if waits_by_counterpart() {
                    return send_and_receive(&ISEND, [&IRECV, &RECV], [a, b, c, d, e, comm], [f, g, h, i, j, comm], status);
                }
                let _waiting = patience::wait();
                pass!(OWN, a b c d e f g h i j comm status)
            }
        };
    };
}

sendrecv!("MPI_Sendrecv", "PMPI_Sendrecv\0", "PMPI_Isend\0", "PMPI_Irecv\0", "PMPI_Recv\0");
#[cfg(target_pointer_width = "64")]
sendrecv!("MPI_Sendrecv_c", "PMPI_Sendrecv_c\0", "PMPI_Isend_c\0", "PMPI_Irecv_c\0", "PMPI_Recv_c\0");

// Waits for what the program has started itself, and probes: each is polled by the call that tests the same.

/// Exports a call whose counterpart has a flag among its arguments, and that is done when the flag is set.
macro_rules! tested {
    ($($name:literal $counterpart:literal ($($argument:ident)*) ($($after:ident)*);)*) => {$(
        const _: () = {
            static OWN: Symbol = Symbol::new(concat!("PMPI_", $name, "\0"));
            static COUNTERPART: Symbol = Symbol::new(concat!("PMPI_", $counterpart, "\0"));

            marked!(concat!("MPI_", $name), ($($argument)* $($after)*));

            #[cold]
            extern "C" fn otherwise($($argument: usize,)* $($after: usize),*) -> c_int {
                let by_counterpart = counterpart(&COUNTERPART);
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
        let by_counterpart = counterpart(&COUNTERPART);
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

// Collective calls. Their counterparts may add in another order: a sum of floating-point numbers then differs in its last bits.
//
// On intercommunicators they are the library's own: `MPI_Ibcast` of MPICH 4.0.2 brings the wrong value there.

/// Whether the communicator has one group.
fn within_one_group(comm: usize) -> bool {
    static TEST_INTER: Symbol = Symbol::new("PMPI_Comm_test_inter\0");
    let mut inter: c_int = 0;
    // SAFETY: MPI_Comm_test_inter has these parameters in every ABI.
    unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn(usize, *mut c_int) -> c_int>(TEST_INTER.address())(
            comm,
            &raw mut inter,
        )
    };
    inter == 0
}

/// The calls of a list, in both forms.
macro_rules! collective {
    ($($name:literal $counterpart:literal ($($argument:ident)*) $comm:ident;)*) => {$(
        started!(concat!("MPI_", $name), concat!("PMPI_", $name, "\0"), concat!("PMPI_", $counterpart, "\0"),
            within_one_group($comm), ($($argument)* $comm));
        #[cfg(target_pointer_width = "64")]
        started!(concat!("MPI_", $name, "_c"), concat!("PMPI_", $name, "_c\0"), concat!("PMPI_", $counterpart, "_c\0"),
            within_one_group($comm), ($($argument)* $comm));
    )*};
}

collective! {
    "Barrier" "Ibarrier" () comm;
    "Bcast" "Ibcast" (buffer count datatype root) comm;
    "Reduce" "Ireduce" (send receive count datatype operation root) comm;
    "Allreduce" "Iallreduce" (send receive count datatype operation) comm;
    "Reduce_scatter" "Ireduce_scatter" (send receive counts datatype operation) comm;
    "Reduce_scatter_block" "Ireduce_scatter_block" (send receive count datatype operation) comm;
    "Scan" "Iscan" (send receive count datatype operation) comm;
    "Exscan" "Iexscan" (send receive count datatype operation) comm;
    "Gather" "Igather" (send count datatype receive receive_count receive_type root) comm;
    "Gatherv" "Igatherv" (send count datatype receive counts displacements receive_type root) comm;
    "Scatter" "Iscatter" (send count datatype receive receive_count receive_type root) comm;
    "Scatterv" "Iscatterv" (send counts displacements datatype receive receive_count receive_type root) comm;
    "Allgather" "Iallgather" (send count datatype receive receive_count receive_type) comm;
    "Allgatherv" "Iallgatherv" (send count datatype receive counts displacements receive_type) comm;
    "Alltoall" "Ialltoall" (send count datatype receive receive_count receive_type) comm;
    "Alltoallv" "Ialltoallv" (send counts displacements datatype receive receive_counts receive_displacements receive_type) comm;
    "Alltoallw" "Ialltoallw" (send counts displacements datatypes receive receive_counts receive_displacements receive_types) comm;
    "Neighbor_allgather" "Ineighbor_allgather" (send count datatype receive receive_count receive_type) comm;
    "Neighbor_allgatherv" "Ineighbor_allgatherv" (send count datatype receive counts displacements receive_type) comm;
    "Neighbor_alltoall" "Ineighbor_alltoall" (send count datatype receive receive_count receive_type) comm;
    "Neighbor_alltoallv" "Ineighbor_alltoallv"
        (send counts displacements datatype receive receive_counts receive_displacements receive_type) comm;
    "Neighbor_alltoallw" "Ineighbor_alltoallw"
        (send counts displacements datatypes receive receive_counts receive_displacements receive_types) comm;
}

// Calls that stay the library's own, marked as a wait; the progress function yields in them. Those of C have no nonblocking counterpart.
//
// Those of Fortran (`mpif.h`, `use mpi`, `use mpi_f08`) call `PMPI_Send` in Open MPI, so the calls of C do not see them. All their
// arguments are addresses. The last is that of the error; Fortran 2008 may leave it out by a null address.

/// The calls of C in a list.
macro_rules! others {
    ($($name:literal ($($argument:ident)*);)*) => {
        $(own!(concat!("MPI_", $name), concat!("PMPI_", $name, "\0"), $($argument)*);)*
    };
}

others! {
    "Finalize" ();
    "Sendrecv_replace" (buffer count datatype destination send_tag source receive_tag comm status);
    "Mrecv" (buffer count datatype message status);
    "Buffer_detach" (buffer size);
    "Comm_dup" (comm new);
    "Comm_dup_with_info" (comm info new);
    "Comm_create" (comm group new);
    "Comm_create_group" (comm group tag new);
    "Comm_split" (comm color key new);
    "Comm_split_type" (comm kind key info new);
    "Comm_free" (comm);
    "Comm_disconnect" (comm);
    "Comm_accept" (port info root comm new);
    "Comm_connect" (port info root comm new);
    "Comm_spawn" (command argv most info root comm new errors);
    "Intercomm_create" (local local_leader peer remote_leader tag new);
    "Intercomm_merge" (comm high new);
    "Cart_create" (comm dimensions sizes periods reorder new);
    "Dist_graph_create_adjacent" (comm indegree sources source_weights outdegree targets target_weights info reorder new);
    "Win_create" (base size unit info comm window);
    "Win_allocate" (size unit info comm base window);
    "Win_allocate_shared" (size unit info comm base window);
    "Win_create_dynamic" (info comm window);
    "Win_free" (window);
    "Win_fence" (assertion window);
    "Win_start" (group assertion window);
    "Win_complete" (window);
    "Win_lock" (kind rank assertion window);
    "Win_unlock" (rank window);
    "Win_lock_all" (assertion window);
    "Win_unlock_all" (window);
    "Win_flush" (rank window);
    "Win_flush_all" (window);
    "Win_flush_local" (rank window);
    "Win_flush_local_all" (window);
    "File_open" (comm name mode info file);
    "File_close" (file);
    "File_read_all" (file buffer count datatype status);
    "File_write_all" (file buffer count datatype status);
}

/// The calls of Fortran in a list, in both forms, with their arguments without the error.
macro_rules! fortran {
    ($(($($argument:ident)*) $($name:literal)*;)*) => {$(
        fortran!(@each ($($argument)*) $($name)*);
    )*};
    (@each $arguments:tt $($name:literal)*) => {
        $(fortran!(@one $arguments $name);)*
    };
    (@one ($($argument:ident)*) $name:literal) => {
        own!(concat!("mpi_", $name, "_"), concat!("pmpi_", $name, "_\0"), $($argument)* error);
        own!(concat!("mpi_", $name, "_f08_"), concat!("pmpi_", $name, "_f08_\0"), $($argument)* error);
    };
}

fortran! {
    () "finalize";
    (a) "barrier" "comm_free" "comm_disconnect" "win_free" "win_complete" "win_wait"
        "win_unlock_all" "win_flush_all";
    (a b) "wait" "comm_dup" "win_fence" "win_unlock" "win_lock_all" "win_flush";
    (a b c) "waitall" "comm_create" "win_start";
    (a b c d) "probe" "waitany" "comm_split" "win_lock";
    (a b c d e) "mprobe" "mrecv" "waitsome" "bcast";
    (a b c d e f) "send" "ssend" "rsend" "bsend" "allreduce" "reduce_scatter" "reduce_scatter_block"
        "scan" "exscan" "win_create" "win_allocate";
    (a b c d e f g) "recv" "reduce" "allgather" "alltoall" "neighbor_allgather" "neighbor_alltoall";
    (a b c d e f g h) "gather" "scatter" "allgatherv" "neighbor_allgatherv";
    (a b c d e f g h i) "sendrecv_replace" "gatherv" "scatterv" "alltoallv" "alltoallw"
        "neighbor_alltoallv" "neighbor_alltoallw";
    (a b c d e f g h i j k l) "sendrecv";
}
