//! Shared helpers of the tests of all crates.
//!
//! - [`skip`] and [`lacks`] say that a test could not run. Under `PUNCTUAL_NO_SKIP=1` a [`skip`] fails; [`lacks`] fails where the machine
//!   has the [`Lack`]. [`needs_root`] skips for other users.
//! - [`alone`] keeps other tests of this process away; [`alone_on_this_machine`] those of every process.
//! - [`eventually`] waits for what must come true; [`undisturbed`] repeats what another program may have disturbed.
//! - [`first_cpu`] is a CPU that may be used.
//! - [`inputs`] is how many inputs a test of any input tries: more while `cargo xtask fuzz` runs it.
//! - [`library`] is the file of a shared library of this project.
//! - [`in_a_process_of_its_own`] and [`as_plain_user`] run a test of this program again in another process. [`open_copy`] makes a
//!   program that every user may run, [`copy`] one that can be run at once.
#![forbid(unsafe_code)]

mod copy;
mod cpu;
mod disturbance;
mod lack;
mod library;
mod lock;
mod patience;
mod skip;
mod user;

pub use copy::copy;
pub use cpu::first_cpu;
pub use disturbance::{Disturbed, undisturbed};
pub use lack::Lack;
pub use library::library;
pub use lock::{AloneHere, AloneOnThisMachine, alone, alone_on_this_machine};
pub use patience::{GIVE_UP, eventually, until};
pub use skip::{lacks, skip};
pub use user::{NOBODY, as_plain_user, in_a_process_of_its_own, is_root, needs_root, open_copy};

/// The number of inputs of a test that tries any input: as usual, or what `cargo xtask fuzz` asks for.
pub fn inputs(usual: u32) -> u32 {
    std::env::var("PUNCTUAL_INPUTS").map_or(usual, |inputs| inputs.parse().expect("PUNCTUAL_INPUTS is a number"))
}
