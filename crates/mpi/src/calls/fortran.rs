//! The calls as Fortran makes them (`mpif.h`, `use mpi`, `use mpi_f08`). Those of Open MPI call `PMPI_Send`, so the ones of C do
//! not see them. They are the library's own, marked as a wait; Open MPI's progress function yields in them.
//!
//! All arguments are addresses. The last is that of the error; Fortran 2008 may leave it out by a null address.

/// The calls of a list, in both forms, with their arguments without the error.
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
