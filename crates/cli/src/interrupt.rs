//! Ctrl-C and its kin: end the measurement, report what there is.

use std::sync::Arc;

use anyhow::Context as _;
use punctual_lab::{Stop, breaks};
use punctual_linux::signal::is_ignored;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::stream;

/// Starts listening. The first signal asks the run to end; a second one of the same ends the process at once, and the kernel
/// takes back what was held (thread conditions, open files). What the program was started to ignore (`nohup`, or the background of a
/// script) it goes on ignoring.
pub(crate) fn listen(stop: &Stop) -> anyhow::Result<()> {
    let stop = stop.clone();
    // A limit of file sizes is an error of the write, not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("heeding SIGXFSZ")?;
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGXCPU].into_iter().filter(|signal| !is_ignored(*signal).unwrap_or(false));
    let mut signals = Signals::new(wanted).context("listening for SIGINT, SIGTERM, SIGHUP and SIGXCPU")?;
    let thread = std::thread::Builder::new().name("signals".into());
    let listener = move || {
        stop.attend_from_this_thread();
        for signal in signals.forever() {
            // A reader that keeps the results waiting ends nothing but its own output.
            // The kernel repeats SIGXCPU every second, and ends the process itself if that does not help.
            if signal != SIGXCPU && !stream::give_up() && stop.reason().is_some() {
                // A thread that does not get its CPU could not end with the process.
                punctual_linux::rescue::free_process(std::process::id() as i32, None);
                std::process::exit(128 + signal);
            }
            stop.request(name(signal));
        }
    };
    // Tells that the process was stopped (SIGSTOP, Ctrl-Z) and goes on.
    signal_hook::flag::register(SIGCONT, breaks::continued()).context("listening for SIGCONT")?;
    thread.spawn(listener).context("starting the thread that listens for signals")?;
    Ok(())
}

/// A signal's name.
fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGXCPU => "SIGXCPU",
        _ => "SIGHUP",
    }
}

/// How a run ends that nothing but a signal may have ended before its time.
pub(crate) fn exit(stop: &Stop) -> Exit {
    let number = |name: &str| match name {
        "SIGINT" => SIGINT,
        "SIGTERM" => SIGTERM,
        "SIGXCPU" => SIGXCPU,
        _ => SIGHUP,
    };
    stop.reason().map_or(Exit::Done, |name| Exit::Signal(number(&name) as u8))
}
