//! The command `punctual`: arguments in, a plan to the laboratory, its run to the reports, an exit status out.
//!
//! Only this crate prints. Tables go to stdout; progress and notices to stderr. Exit status: 0 done; 1 failed while
//! running; 2 bad usage; 3 a threshold was exceeded or could not be judged; 128 + n ended by signal n (130 for Ctrl-C), after what
//! was measured has been reported. A closed pipe is not an error.
//!
//! Modules use those to their left only: `stream` ← `terminal` ← `exit` ← `output` ← `args`, `state` ← `commands`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod cpu_lock;
mod exit;
mod input;
mod interrupt;
mod output;
mod progress;
mod state;
mod stream;
mod terminal;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

/// The one definition of the command line, for the parser, its help, the manual and the completions.
#[must_use]
pub fn command() -> clap::Command {
    args::Args::command()
}

/// Does what the process' arguments ask, and tells with which status to exit.
#[must_use]
pub fn main() -> ExitCode {
    // Should that fail, the end of a child is still noticed, and how it ended is not.
    let _ = punctual_linux::inherited::heed_children();
    let done = match args::Args::try_parse() {
        Ok(args) => commands::dispatch(args),
        Err(refused) if refused.use_stderr() => Ok(exit::refuse(&refused)),
        // The help and the version are output like any other.
        Err(told) => {
            let told = told.render();
            let plain = anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never;
            terminal::print(&if plain { told.to_string() } else { told.ansi().to_string() }).map(|()| exit::Exit::Done)
        }
    };
    done.unwrap_or_else(|error| exit::explain(&error)).into()
}
