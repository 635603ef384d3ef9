//! `punctual why`: of own waits, of a program, of a running process.

mod finish;
mod own;
mod path;
mod process;
mod program;
mod trace;

use crate::args::WhyArgs;
use crate::exit::Exit;

/// Watches what the arguments name.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    match args.pid {
        Some(pid) => process::run(args, pid),
        None if !args.path.is_empty() => path::run(args, args.path.clone()),
        None if args.program.is_empty() => own::run(args),
        None => program::run(args),
    }
}
