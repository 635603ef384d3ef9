//! Calls that stay the library's own, marked as a wait; the progress function yields in them. Those of C have no nonblocking counterpart.
//!
//! Those of Fortran (`mpif.h`, `use mpi`, `use mpi_f08`) call `PMPI_Send` in Open MPI, so the calls of C do not see them. All their
//! arguments are addresses. The last is that of the error; Fortran 2008 may leave it out by a null address.

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
