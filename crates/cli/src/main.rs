//! The command `punctual`. All code is in the library of this crate, which the manual and the completions use too.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_cli::main()
}
