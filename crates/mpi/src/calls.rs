//! The blocking calls of MPI: each waits with patience.
//!
//! Where the progress function yields ([`crate::library`]), a call is the library's own, marked as a wait. Elsewhere it becomes its
//! nonblocking counterpart; a call without one is the library's own there too.
//!
//! Each is exported once more for large counts (`MPI_Send_c`) where registers have 64 bits: its arguments are registers too.

use std::ffi::c_int;
use std::ptr::with_exposed_provenance;

use crate::library::{self, Status, is_nobody, waits_by_counterpart};
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
                let request = (&raw mut started).expose_provenance();
                let error = pass!(COUNTERPART, $($argument)* request);
                if error != 0 {
                    return error;
                }
                finish(started, None$(.or(Some($status)))?)
            }
        };
    };
}

/// The calls of a list, in both forms. Where `$fit` does not hold for the last argument named, a call is the library's own.
macro_rules! nonblocking {
    ($fit:ident: $($name:literal $counterpart:literal $arguments:tt ($($status:ident)?) $of:ident;)*) => {$(
        started!(concat!("MPI_", $name), concat!("PMPI_", $name, "\0"), concat!("PMPI_", $counterpart, "\0"),
            $fit($of), $arguments $($status)?);
        #[cfg(target_pointer_width = "64")]
        started!(concat!("MPI_", $name, "_c"), concat!("PMPI_", $name, "_c\0"), concat!("PMPI_", $counterpart, "_c\0"),
            $fit($of), $arguments $($status)?);
    )*};
}

/// Whether calls wait by their nonblocking counterparts, and this one has one.
#[inline]
fn counterpart(counterpart: &Symbol) -> bool {
    library::waits_by_counterpart() && counterpart.find().is_some()
}

/// Makes a call that tests until it has failed or set its flag, a number at the address that it gets: one of the program's, if given.
fn until_done(given: Option<usize>, test: impl Fn(usize) -> c_int) -> c_int {
    let mut done: c_int = 0;
    let flag = given.unwrap_or((&raw mut done).expose_provenance());
    let waiting = patience::wait();
    loop {
        let error = test(flag);
        // SAFETY: the call has written the number, which is this one or the program's.
        if error != 0 || unsafe { with_exposed_provenance::<c_int>(flag).read() } != 0 {
            return error;
        }
        waiting.idle();
    }
}

/// Waits for a request that one of these calls has started. `status` is an address of the program, if it wants one.
fn finish(mut request: usize, status: Option<usize>) -> c_int {
    static TEST: Symbol = Symbol::new("PMPI_Test\0");
    let mut unused = Status::new();
    let status = status.unwrap_or((&raw mut unused).expose_provenance());
    let request = (&raw mut request).expose_provenance();
    until_done(None, |flag| pass!(TEST, request flag status))
}

// Messages between two ranks.

/// Whether a rank is one, and not `MPI_PROC_NULL`.
fn is_somebody(rank: usize) -> bool {
    !is_nobody(rank)
}

nonblocking! { is_somebody:
    "Send" "Isend" (buffer count datatype destination tag comm) () destination;
    "Ssend" "Issend" (buffer count datatype destination tag comm) () destination;
    "Rsend" "Irsend" (buffer count datatype destination tag comm) () destination;
    "Bsend" "Ibsend" (buffer count datatype destination tag comm) () destination;
    "Recv" "Irecv" (buffer count datatype source tag comm) (status) source;
}

/// What a message is made of: buffer, count, datatype, peer, tag, communicator.
type Message = [usize; 6];

/// Starts a message with a request at this address, or makes the call of the same parameters that has a status there.
fn start(how: &Symbol, [a, b, c, d, e, f]: Message, last: usize) -> c_int {
    pass!(how, a b c d e f last)
}

/// Both directions at once. The receive is posted first, so that the peer's message need not be copied twice.
fn send_and_receive(
    isend: &Symbol,
    [irecv, recv]: [&Symbol; 2],
    sent: Message,
    received: Message,
    status: usize,
) -> c_int {
    let (mut receive, mut send) = (0usize, 0usize);
    let from_nobody = is_nobody(received[3]);
    if !from_nobody {
        let error = start(irecv, received, (&raw mut receive).expose_provenance());
        if error != 0 {
            return error;
        }
    }
    let error = start(isend, sent, (&raw mut send).expose_provenance());
    if error != 0 {
        if !from_nobody {
            give_up(receive);
        }
        return error;
    }
    let (sent, received) = match from_nobody {
        true => (finish(send, None), start(recv, received, status)),
        false => {
            let received = finish(receive, Some(status));
            (finish(send, None), received)
        }
    };
    if received != 0 { received } else { sent }
}

/// Cancels a receive and forgets it.
fn give_up(mut request: usize) {
    static CANCEL: Symbol = Symbol::new("PMPI_Cancel\0");
    static FREE: Symbol = Symbol::new("PMPI_Request_free\0");
    let request = (&raw mut request).expose_provenance();
    pass!(CANCEL, request);
    pass!(FREE, request);
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

/// Exports a call whose counterpart has a flag among its arguments, and that is done when the flag is set. `MPI_Testsome` has a count in its
/// place, which is the program's: zero means that none is done.
macro_rules! tested {
    ($($name:literal $counterpart:literal ($($argument:ident)*) $($count:ident)? ($($after:ident)*);)*) => {$(
        const _: () = {
            static OWN: Symbol = Symbol::new(concat!("PMPI_", $name, "\0"));
            static COUNTERPART: Symbol = Symbol::new(concat!("PMPI_", $counterpart, "\0"));

            marked!(concat!("MPI_", $name), ($($argument)* $($count)? $($after)*));

            #[cold]
            extern "C" fn otherwise($($argument: usize,)* $($count: usize,)? $($after: usize),*) -> c_int {
                if !counterpart(&COUNTERPART) {
                    let _waiting = patience::wait();
                    return pass!(OWN, $($argument)* $($count)? $($after)*);
                }
                until_done(None$(.or(Some($count)))?, |flag| pass!(COUNTERPART, $($argument)* flag $($after)*))
            }
        };
    )*};
}

tested! {
    "Wait" "Test" (request) (status);
    "Waitall" "Testall" (count requests) (statuses);
    "Waitany" "Testany" (count requests index) (status);
    "Waitsome" "Testsome" (count requests) done (indices statuses);
    "Probe" "Iprobe" (source tag comm) (status);
    "Mprobe" "Improbe" (source tag comm) (message status);
    "Win_wait" "Win_test" (window) ();
}

// Collective calls. Their counterparts may add in another order: a sum of floating-point numbers then differs in its last bits.
//
// On intercommunicators they are the library's own: `MPI_Ibcast` of MPICH 4.0.2 brings the wrong value there.

/// Whether the communicator has one group.
fn within_one_group(comm: usize) -> bool {
    static TEST_INTER: Symbol = Symbol::new("PMPI_Comm_test_inter\0");
    let mut inter: c_int = 0;
    let flag = (&raw mut inter).expose_provenance();
    pass!(TEST_INTER, comm flag);
    inter == 0
}

nonblocking! { within_one_group:
    "Barrier" "Ibarrier" (comm) () comm;
    "Bcast" "Ibcast" (buffer count datatype root comm) () comm;
    "Reduce" "Ireduce" (send receive count datatype operation root comm) () comm;
    "Allreduce" "Iallreduce" (send receive count datatype operation comm) () comm;
    "Reduce_scatter" "Ireduce_scatter" (send receive counts datatype operation comm) () comm;
    "Reduce_scatter_block" "Ireduce_scatter_block" (send receive count datatype operation comm) () comm;
    "Scan" "Iscan" (send receive count datatype operation comm) () comm;
    "Exscan" "Iexscan" (send receive count datatype operation comm) () comm;
    "Gather" "Igather" (send count datatype receive receive_count receive_type root comm) () comm;
    "Gatherv" "Igatherv" (send count datatype receive counts displacements receive_type root comm) () comm;
    "Scatter" "Iscatter" (send count datatype receive receive_count receive_type root comm) () comm;
    "Scatterv" "Iscatterv" (send counts displacements datatype receive receive_count receive_type root comm) () comm;
    "Allgather" "Iallgather" (send count datatype receive receive_count receive_type comm) () comm;
    "Allgatherv" "Iallgatherv" (send count datatype receive counts displacements receive_type comm) () comm;
    "Alltoall" "Ialltoall" (send count datatype receive receive_count receive_type comm) () comm;
    "Alltoallv" "Ialltoallv" (send counts displacements datatype receive receive_counts receive_displacements receive_type comm) () comm;
    "Alltoallw" "Ialltoallw" (send counts displacements datatypes receive receive_counts receive_displacements receive_types comm) () comm;
    "Neighbor_allgather" "Ineighbor_allgather" (send count datatype receive receive_count receive_type comm) () comm;
    "Neighbor_allgatherv" "Ineighbor_allgatherv" (send count datatype receive counts displacements receive_type comm) () comm;
    "Neighbor_alltoall" "Ineighbor_alltoall" (send count datatype receive receive_count receive_type comm) () comm;
    "Neighbor_alltoallv" "Ineighbor_alltoallv"
        (send counts displacements datatype receive receive_counts receive_displacements receive_type comm) () comm;
    "Neighbor_alltoallw" "Ineighbor_alltoallw"
        (send counts displacements datatypes receive receive_counts receive_displacements receive_types comm) () comm;
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
