//! The command `punctual`: parses arguments, makes a plan, runs it, reports the run, returns an exit status.
//!
//! Only this crate prints. Tables go to stdout; progress and notices to stderr. Exit status: 0 done; 1 failed while running; 2
//! bad usage; 3 limit exceeded; 4 limit not judged. Signal n gives 128 + n (130: Ctrl-C). After a signal, the figures so far are
//! reported. A closed pipe is not an error.
//!
//! ARCHITECTURE.md has the layers of its modules.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod output;
mod privileges;
mod progress;
mod refusal;
mod saved;
mod terminal;

use std::process::ExitCode;

use clap::FromArgMatches as _;

/// The definition of the command line for parser, help, manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    args::define(commands::command);
    commands::command()
}

/// Runs the command of the process's arguments and returns the exit status.
#[must_use]
pub fn main() -> ExitCode {
    exit::explain_lack_of_memory();
    exit::take_stack();
    if let Err(refused) = privileges::limit() {
        return exit::explain(&refused).into();
    }
    // If this fails, the end of a child is still noticed, but not its status.
    let _ = punctual_linux::inherited::heed_children();
    if let Some(done) = commands::cyclic::as_cyclictest(std::env::args_os()) {
        return done.unwrap_or_else(|error| exit::explain(&error)).into();
    }
    let read = |line: clap::ArgMatches| Ok((commands::Args::from_arg_matches(&line)?, line));
    let done = match command().try_get_matches().and_then(read) {
        Ok((args, line)) => commands::dispatch(&line, &args),
        Err(refused) if refused.use_stderr() => {
            refusal::explanation::say(&refused, command());
            Ok(exit::Exit::Usage)
        }
        // The help and the version are output like any other.
        Err(told) => {
            let told = told.render();
            let plain = anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never;
            terminal::print(&if plain { told.to_string() } else { told.ansi().to_string() }).map(|()| exit::Exit::Done)
        }
    };
    done.unwrap_or_else(|error| exit::explain(&error)).into()
}
