//! Signals such as Ctrl-C end the measurement; the results so far are reported.

use std::sync::Arc;

use anyhow::Context as _;
use punctual_lab::Stop;
use punctual_linux::signal::is_ignored;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::terminal;

/// Starts listening. The first signal asks the run to end. A second one ends the process at once, and the kernel releases thread
/// conditions and open files. Signals ignored at the start (`nohup`, the background of a script) stay ignored.
pub(crate) fn listen(stop: &Stop) -> anyhow::Result<()> {
    let stop = stop.clone();
    // At a file size limit the write fails, instead of the signal ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("heeding SIGXFSZ")?;
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGXCPU].into_iter().filter(|signal| !is_ignored(*signal).unwrap_or(false));
    let mut signals = Signals::new(wanted).context("listening for SIGINT, SIGTERM, SIGHUP and SIGXCPU")?;
    let thread = std::thread::Builder::new().name("signals".into());
    let listener = move || {
        stop.attend_from_this_thread();
        for signal in signals.forever() {
            // If a reader blocks the results, the first signal ends only that output.
            // The kernel repeats SIGXCPU every second, and finally ends the process itself.
            if signal != SIGXCPU && !terminal::give_up() && stop.reason().is_some() {
                // A thread that never gets its CPU could not end with the process.
                punctual_linux::sched::free_process(std::process::id() as i32, None);
                std::process::exit(128 + signal);
            }
            stop.request(name(signal));
        }
    };
    // SIGCONT reports that the process was stopped (SIGSTOP, Ctrl-Z) and continues.
    signal_hook::flag::register(SIGCONT, punctual_lab::continued()).context("listening for SIGCONT")?;
    thread.spawn(listener).context("starting the thread that listens for signals")?;
    Ok(())
}

/// The name of a signal.
fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGXCPU => "SIGXCPU",
        _ => "SIGHUP",
    }
}

/// The exit status of a run: that of the signal that ended it early, else success.
pub(crate) fn exit(stop: &Stop) -> Exit {
    let number = |name: &str| match name {
        "SIGINT" => SIGINT,
        "SIGTERM" => SIGTERM,
        "SIGXCPU" => SIGXCPU,
        _ => SIGHUP,
    };
    stop.reason().map_or(Exit::Done, |name| Exit::Signal(number(&name) as u8))
}
