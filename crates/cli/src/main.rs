//! The command `punctual`; everything is in the library of this crate, where the manual and the completions find it too.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod interrupt;
mod output;
mod progress;
mod saved;

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_cli::main()
}
