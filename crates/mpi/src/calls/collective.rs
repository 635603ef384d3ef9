//! Collective calls. Their counterparts may add in another order: a sum of floating-point numbers then differs in its last bits.
//!
//! On intercommunicators they are the library's own: `MPI_Ibcast` of MPICH 4.0.2 brings the wrong value there.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use crate::symbol::Symbol;

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
