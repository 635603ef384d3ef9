//! `libpunctual_mpi.so`: MPI ranks give up the CPU while they wait. Loaded by `LD_PRELOAD`; no recompiling, no headers of an MPI.
//!
//! MPI libraries poll while they wait. A rank that shares its CPU polls until its time slice ends. Meanwhile the sender of its
//! message cannot run. This library lets every wait poll a number of times, then calls `sched_yield(2)`, and so on. The number is
//! small where ranks share a CPU. Elsewhere yields are so seldom that the calls stay as fast as they were (`patience`).
//!
//! There are two ways to do that, and `library` finds out which of them works:
//!
//! - `library`: MPICH and Open MPI poll through a function of another shared object. It is replaced by one that counts the polls
//!   in vain. The MPI calls themselves stay as they are, collectives too.
//! - `calls`: elsewhere a blocking call becomes its nonblocking counterpart (`MPI_Recv`: `PMPI_Irecv`, then `PMPI_Test` until it is done).
//!
//! MPICH's handles are integers, those of Open MPI and of the MPI 5 ABI are pointers. All arguments are passed at register width, so
//! one library serves all of them.
//!
//! Goes in: the MPI calls of the program, and four environment variables (`patience`, `library`). Comes out: the same calls to the MPI
//! library. It refuses nothing, and it changes nothing in a program that has no MPI. The path of a call allocates nothing and
//! locks nothing.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod calls;
mod library;
mod patience;
mod rank;
mod symbol;

/// The version, which `punctual run` compares with its own before it loads the library.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".punctual.version")]
pub static PUNCTUAL_MPI_VERSION: [u8; env!("CARGO_PKG_VERSION").len()] =
    *env!("CARGO_PKG_VERSION").as_bytes().first_chunk().expect("the array has its length");
