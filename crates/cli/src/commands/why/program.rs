//! A program that is started to be watched.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use punctual_lab::advise::{Advisor, Reach, Tried};
use punctual_lab::program::{Account, Depth, Watcher};
use punctual_lab::{Silent, Stop};
use punctual_linux::supervise::{Ended, GateKeeper, Settings, Supervised, gate};
use punctual_linux::{clock, signal};
use punctual_record::{Causes, Program};
use punctual_trace::{Batch, Target};

use super::args::{self, WhyArgs};
use crate::commands::run::{not_run, status};
use crate::commands::trace::Trace;
use crate::exit::Exit;
use crate::output::Output;

/// Interval of the readings. Where events are read, the end of the program waits this long at most for the report.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the program and watches it from its first instruction on. Returns its exit status, whatever becomes of the report.
pub(super) fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    let wanted = args.outputs();
    let mut outputs = wanted.open_beside_program()?;
    let mut silent = Silent;
    let mut session = args::session(Stop::default(), &mut silent);
    let used_before = children_cpu_ns();
    let (gate, keeper) = gate().context("a socket to the program")?;
    let advise = args.advise.then(|| args.measure.amount.duration.unwrap_or(args::USUAL_TO_ADVISE));
    let mut observer = Observer::start(keeper, advise, outputs.take("--trace"), args.depth())?;
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    let program = match Supervised::spawn(command, Settings::default(), Some(gate)) {
        Ok(program) => program,
        Err(error) => {
            observer.end();
            return Ok(not_run(&args.program[0], &error));
        }
    };
    let (pid, began) = (program.pid(), Instant::now());
    let ended = program.wait_and(|| observer.end()).context("waiting for the program")?;
    let took = began.elapsed();
    observer.end();
    let exit = status(&args.program[0], ended);
    if let Some((mut causes, tried)) = observer.found {
        let name = Path::new(&args.program[0]).file_name().unwrap_or(&args.program[0]).to_string_lossy().into_owned();
        let cut = advise.filter(|time| took < *time).map(|time| args::ended_before_advice(&name, took, time));
        let code = match ended {
            Ended::Exited(status) => Some(status.into()),
            Ended::Signalled(signal) => Some(128 + i32::from(signal)),
            Ended::Unknown => None,
        };
        let watched = causes.program.take().unwrap_or_default();
        // The kernel's sum has the threads that lived between two readings of the account.
        let used = children_cpu_ns().saturating_sub(used_before);
        let cpu_ns = Some(watched.cpu_ns.unwrap_or(0).max(used));
        causes.program = Some(Program { name, pid: pid.cast_unsigned(), status: code, cpu_ns, ..watched });
        args::enter_trials(tried, cut.as_ref(), &mut causes, &mut session);
        args.close(session, causes, &wanted, outputs);
    }
    Ok(exit)
}

/// The thread that watches.
struct Observer {
    thread: Option<JoinHandle<Option<(Causes, Tried)>>>,
    ending: Arc<AtomicBool>,
    found: Option<(Causes, Tried)>,
}

impl Observer {
    /// Starts the thread. It lets the program go when it watches, and tries remedies for some time.
    fn start(
        keeper: GateKeeper,
        advise: Option<Duration>,
        trace: Option<Output>,
        depth: Depth,
    ) -> anyhow::Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ending);
        let watch = move || {
            // Signals are for the thread that passes them on.
            let _blocked = signal::block_all_signals_for_this_thread();
            let pid = keeper.process()?;
            let target = Target { tids: vec![pid], with_children: true };
            let mut trace = Trace::begin(trace, &target);
            let mut watcher = Watcher::begin_before(pid, &target, Account::of_process(pid), depth);
            drop(keeper);
            let goes_on = || !told.load(Ordering::Acquire);
            let mut each = |batch: &Batch| trace.take(batch);
            let mut tried = Tried::default();
            if let Some(time) = advise {
                let before = time.mul_f64(args::BEFORE_ADVICE);
                watch_for(&mut watcher, before, &goes_on, &mut each);
                // The gate is open: a process that is forked now does not hold it.
                tried = match Advisor::open(pid, Reach::Descendants) {
                    Ok(mut advisor) => advisor.run(&mut watcher, time - before, &goes_on, &mut each),
                    Err(error) => Tried::none(&error),
                };
            }
            watch_for(&mut watcher, Duration::MAX, &goes_on, &mut each);
            let causes = watcher.end(Program::default(), &mut each);
            // The exit status is the program's, whatever becomes of the file.
            trace.finish(&causes);
            Some((causes, tried))
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(watch);
        let thread = Some(thread.context("starting the thread that watches")?);
        Ok(Self { thread, ending, found: None })
    }

    /// Ends watching.
    fn end(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            self.found = thread.join().ok().flatten();
        }
    }
}

/// Watches for this long, while it goes on.
fn watch_for(watcher: &mut Watcher, time: Duration, goes_on: &dyn Fn() -> bool, each: &mut dyn FnMut(&Batch)) {
    let begin = Instant::now();
    while goes_on() && begin.elapsed() < time {
        watcher.step(LOOK, each);
    }
}

/// CPU time of the children that were waited for.
fn children_cpu_ns() -> u64 {
    clock::children_usage().map_or(0, |used| (used.user_ns + used.system_ns).unsigned_abs())
}
