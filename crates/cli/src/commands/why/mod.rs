//! `punctual why`: of own waits, of a program, of a running process.

mod advise;
mod args;
mod own;
mod process;
mod program;

use crate::exit::Exit;
use crate::refusal::BadUsage;
pub(crate) use args::WhyArgs;

/// Watches what the arguments name.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    if !args.program.is_empty() && args.measure.amount.duration.is_some() && !args.advise {
        let text = "invalid --duration: a program is watched until it ends; the time of --advise can be given (example: --advise --duration 60s)";
        return Err(BadUsage(text.into()).into());
    }
    if args.advise && args.program.is_empty() && args.pid.is_none() {
        let text = "invalid --advise: it takes a program (example: punctual why --advise --pid 1234)";
        return Err(BadUsage(text.into()).into());
    }
    match args.pid {
        Some(pid) => process::run(args, pid),
        None if !args.path.is_empty() => own::paths(args, &args.path),
        None if args.program.is_empty() => own::run(args),
        None => program::run(args),
    }
}
