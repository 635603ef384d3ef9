//! The way of a call through the kernel: by the tracer `function_graph` where the kernel has it, else by events.

mod events;
mod graph;
mod tracer;

use punctual_linux::syscall_name;
use punctual_record::{CallPath, PathSource};

use self::tracer::Tracer;
use crate::{Error, Level, Result, Room, Tap, Threads};

/// Calls recorded for one path; the median is shown.
const CALLS: usize = 25;
/// Steps kept of a path.
const MOST_STEPS: usize = 400;
/// How a kernel's functions of system calls begin (`arch/*/include/asm/syscall_wrapper.h`).
#[cfg(target_arch = "x86_64")]
const PREFIX: &str = "__x64_sys_";
#[cfg(target_arch = "aarch64")]
const PREFIX: &str = "__arm64_sys_";
#[cfg(target_arch = "riscv64")]
const PREFIX: &str = "__riscv_sys_";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const PREFIX: &str = "sys_";

/// Records paths of calls that the calling thread makes.
#[derive(Debug)]
pub struct PathRecorder {
    by: By,
    /// Why there is no graph of functions.
    without: Option<Error>,
}

#[derive(Debug)]
enum By {
    Graph(Tracer),
    Events(Tap),
}

impl PathRecorder {
    /// Uses the tracer `function_graph` if possible, else events.
    ///
    /// # Errors
    /// If neither is permitted.
    pub fn open() -> Result<Self> {
        let without = match Tracer::open() {
            Ok(tracer) => return Ok(Self { by: By::Graph(tracer), without: None }),
            Err(why) => why,
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let tap = Tap::open(&Threads::near([own]), Level::Core, Room::Large)?;
        Ok(Self { by: By::Events(tap), without: Some(without) })
    }

    /// Why there is no graph of functions.
    #[must_use]
    pub const fn without(&self) -> Option<&Error> {
        self.without.as_ref()
    }

    /// Makes the call several times and gives its median path. `system_calls` are those it can make; none where it makes none, or
    /// where nothing whole was recorded.
    ///
    /// # Errors
    /// If the kernel refuses to record.
    pub fn record(
        &mut self,
        (method, call): (&str, &str),
        system_calls: &[&str],
        work: &mut dyn FnMut(),
    ) -> Result<Option<CallPath>> {
        let path = match &mut self.by {
            By::Graph(tracer) => by_graph(tracer, system_calls, work)?,
            By::Events(tap) => by_events(tap, system_calls, work)?,
        };
        Ok(path.map(|mut path| {
            path.cut_off = path.steps.len().saturating_sub(MOST_STEPS) as u64;
            path.steps.truncate(MOST_STEPS);
            CallPath { method: method.to_owned(), call: call.to_owned(), ..path }
        }))
    }
}

fn path(source: PathSource) -> CallPath {
    let (method, call, steps) = (String::new(), String::new(), Vec::new());
    CallPath { method, call, source, took_ns: 0, steps, recorded: 0, interrupted: 0, cut_off: 0 }
}

fn by_graph(tracer: &Tracer, system_calls: &[&str], work: &mut dyn FnMut()) -> Result<Option<CallPath>> {
    let mut graphs = Vec::new();
    for system_call in system_calls {
        // A call without arguments has no wrapper.
        let roots = [format!("{PREFIX}{system_call}"), format!("__do_sys_{system_call}")];
        for _ in 0..CALLS {
            // A function that this kernel lacks is not the one that the C library calls.
            let Ok(text) = tracer.record(&roots[0], work) else { break };
            graphs.extend(graph::parse(&text, &roots));
        }
        if !graphs.is_empty() {
            break;
        }
    }
    let (middle, recorded, interrupted) = graph::median(graphs);
    Ok(middle.map(|graph| CallPath {
        took_ns: graph.took_ns(),
        steps: graph.steps,
        recorded,
        interrupted,
        ..path(PathSource::FunctionGraph)
    }))
}

fn by_events(tap: &mut Tap, system_calls: &[&str], work: &mut dyn FnMut()) -> Result<Option<CallPath>> {
    let numbers: Vec<i64> = system_calls.iter().filter_map(|name| syscall_name::number_of(name)).collect();
    tap.read_all();
    tap.switch(true)?;
    (0..CALLS).for_each(|_| work());
    tap.switch(false)?;
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let seen = events::calls(&tap.read_all().events, own, &numbers);
    let recorded = seen.len() as u64;
    Ok(events::median(seen).map(|call| CallPath {
        took_ns: call.took_ns,
        steps: call.steps,
        recorded,
        ..path(PathSource::Events)
    }))
}
