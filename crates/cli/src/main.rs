//! The command `punctual`; everything is in the library of this crate, where the manual and the completions find it too.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_cli::main()
}
